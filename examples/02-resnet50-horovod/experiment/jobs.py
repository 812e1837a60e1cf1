"""A training job: submitted, followed and deleted with the seeds' commands, and what its log says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from experiment.commands import CommandError, Commands

RESULT = "result: "
IMAGE = (
    "registry.cn-hangzhou.aliyuncs.com/tensorflow-samples/horovod-benchmark-dawnbench-v2"
    ":0.18.1-tf1.14.0-torch1.2.0-mxnet1.5.0-py3.6"
)
WORKING_DIR = "/horovod-demo/tensorflow-demo/"
JOB_TIMEOUT_S = 3600


class JobError(RuntimeError):
    """A training failed; the message holds the end of its log."""


@dataclass(frozen=True)
class Job:
    """What is asked for. `data` are the flags that bring the data in, `environment` what stands behind `-e`."""

    name: str
    machines: int
    accelerators: int
    data: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    def submit_words(self) -> list[str]:
        """The command, flag for flag in the order of the seeds."""
        variables = [word for name, value in self.environment.items() for word in ("-e", f"{name}={value}")]
        return [
            *("arena", "submit", "mpi", "--name", self.name),
            *(f"--gpus={self.accelerators}", f"--workers={self.machines}", f"--working-dir={WORKING_DIR}"),
            *self.data,
            *variables,
            *(f"--image={IMAGE}", "./launch-example.sh", str(self.machines), str(self.accelerators)),
        ]


@dataclass(frozen=True)
class Outcome:
    """What a training that succeeded reports."""

    result: Mapping[str, Any]
    """train.py's own measurements."""
    job: Mapping[str, Any]
    """`arena get -o json`: with what its data cost."""


def train(commands: Commands, job: Job, *, tell: Callable[[str], None]) -> Outcome:
    """Runs it to its end; `tell` hears its lines of progress. Raises `JobError`. The job is gone afterwards."""
    commands.run(*job.submit_words())
    try:
        log = []
        for line in commands.lines("arena", "logs", "-f", job.name):
            log.append(line.rstrip("\n"))
            if "images/sec:" in line:
                tell(line.strip().replace("\t", "  "))
        try:
            commands.run("arena", "wait", job.name, "--timeout", "1m")
        except CommandError as error:
            raise JobError(f"job {job.name} failed: {error}\n" + "\n".join(log[-40:])) from None
        shown = json.loads(commands.run("arena", "get", job.name, "-o", "json", show=False))
        return Outcome(result_of(log), shown)
    finally:
        commands.run("arena", "delete", job.name)


def result_of(log: Iterable[str]) -> Mapping[str, Any]:
    """The measurements in a log. Raises `JobError` when it has none."""
    lines = list(log)
    for line in reversed(lines):
        if line.startswith(RESULT):
            return dict(json.loads(line.removeprefix(RESULT)))
    raise JobError("the log has no result:\n" + "\n".join(lines[-40:]))
