"""Training jobs of an ordinary user: plain processes on addresses of loopback, with real Open MPI between them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import HEADRACE, command_lines, eventually
from .machines import NEEDS, USER, Machine, shared_machine
from .mpi_logs import without_warnings

pytestmark = [
    *NEEDS,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs Open MPI (openmpi-bin)"),
]

DATASET = """apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {{name: own}}
spec: {{placement: Shared, mounts: [{{mountPoint: "local://{folder}/source", name: a}}]}}
---
apiVersion: data.fluid.io/v1alpha1
kind: AlluxioRuntime
metadata: {{name: own}}
spec:
  replicas: 2
  tieredstore: {{levels: [{{mediumtype: SSD, path: {folder}/home/cache, quota: 64Mi}}]}}
"""


class Person:
    """A user with a backend of their own."""

    def __init__(self, machine: Machine) -> None:
        self.folder = machine.folder
        self._machine = machine

    def must(self, *words: str | Path, code: int = 0) -> str:
        state = f"HEADRACE_STATE_DIR={self.folder}/home/state"
        try:
            done = self._machine.run(USER, "env", state, *words)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"{error}\n{self._picture(state)}") from error
        assert done.returncode == code, f"{words} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def _picture(self, state: str) -> str:
        """What a command waits for that does not end: the backend's view, its processes and the ends of their logs."""
        shown = self._machine.run(USER, "env", state, HEADRACE, "status", "--local")
        lines = [line.replace(b"\0", b" ").decode() for line in command_lines()]
        logs = sorted((self.folder / "home" / "state").rglob("*.log"))
        ends = [f"--- {log}\n{log.read_text(errors='replace')[-2000:]}" for log in logs]
        return "\n".join(
            [
                shown.stdout + shown.stderr,
                *(each for each in lines if str(self.folder) in each or "mpi" in each),
                *ends,
            ]
        )

    def arena(self, *words: str, code: int = 0) -> str:
        script = "import sys; from headrace.cli.arena.main import main; sys.exit(main())"
        return self.must(sys.executable, "-c", script, *words, code=code)


@pytest.fixture
def person() -> Iterator[Person]:
    with shared_machine() as machine:
        person = Person(machine)
        person.must(HEADRACE, "up", "--nodes", "2")
        try:
            yield person
        finally:
            person.must(HEADRACE, "down")
            assert not (person.folder / "home" / "state" / "local").exists()


def test_ranks_are_started_in_instances_without_namespaces_and_read_the_dataset(person: Person) -> None:
    file = person.folder / "home" / "dataset.yaml"
    file.write_text(DATASET.format(folder=person.folder))
    person.must(HEADRACE, "apply", "-f", file)
    person.must(HEADRACE, "wait", "dataset/own", "--for=jsonpath={.status.phase}=Bound", "--timeout", "2m")
    rank = "echo $OMPI_COMM_WORLD_RANK $HEADRACE_NODE $(wc -c < $HEADRACE_DATASET_OWN/a/a.txt) $PMIX_SERVER_TMPDIR"
    common = (
        "submit",
        "mpi",
        "--name",
        "own",
        "--workers=2",
        "--gpus=2",
        f"--working-dir={person.folder}/home",
    )
    person.arena(*common, "--data", "own:/data", "--wait", f"mpirun sh -c '{rank}'")
    lines = without_warnings(person.arena("logs", "own")).splitlines()
    assert sorted(line.rpartition(" ")[0] for line in lines) == [
        f"{rank} node-{1 + rank // 2} 7000" for rank in range(4)
    ]
    # A daemon for each node: in one place on a machine with one host name they would be in each other's way.
    sessions = {line.split()[1]: line.rpartition(" ")[2] for line in lines}
    assert all(f"/instances/own-worker-{number}/" in sessions[f"node-{number + 1}"] for number in range(2)), (
        lines
    )
    person.arena("delete", "own")
    moved = (*common, "--data-dir", f"{person.folder}/source:/elsewhere", "true")
    assert "only root can put folders" in person.arena(*moved, code=1)
    # What runs when everything is taken down goes with it.
    sleep = f"sleep {100_000_000 + os.getpid()}"
    person.arena(*common, f"mpirun {sleep}")
    running = sleep.replace(" ", "\0").encode()
    eventually(lambda: any(running in line for line in command_lines()), command_lines)
    person.must(HEADRACE, "down")
    assert not any(running in line for line in command_lines())
