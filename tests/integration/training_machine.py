"""A machine whose virtual nodes run training jobs, as tests command it and look at it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.jobs.backend import LogWish
from headrace.jobs.spec import JobKind, JobSpec, Resources, Role, RoleName
from headrace.jobs.views import JobPhase, JobView
from headrace.local.jobs.job_client import LocalJobBackend
from headrace.local.layout import BackendLayout
from headrace.local.processes.process_tags import tagged_processes
from headrace.local.protocol.client import LocalClient

from .harness import DEADLINE_S, HEADRACE, Shell, eventually
from .mpi_logs import without_warnings

ARENA = str(Path(HEADRACE).with_name("arena"))
DATASET = """apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {{name: {name}}}
spec:
  placement: Shared
  mounts: [{{mountPoint: "local://{folder}/data", name: {name}}}]
---
apiVersion: data.fluid.io/v1alpha1
kind: AlluxioRuntime
metadata: {{name: {name}}}
spec:
  replicas: 2
  tieredstore:
    levels: [{{mediumtype: SSD, path: "{folder}/cache-{name}", quota: 64Mi}}]
"""
LOAD = """apiVersion: data.fluid.io/v1alpha1
kind: DataLoad
metadata: {{name: {name}}}
spec:
  dataset: {{name: {name}, namespace: default}}
  target: [{paths}]
"""


@dataclass(frozen=True)
class Machine:
    """A backend that is up, and a folder of its tests."""

    shell: Shell
    folder: Path
    jobs: LocalJobBackend

    @property
    def places(self) -> BackendLayout:
        return BackendLayout(self.folder / "state" / "local")

    def spec(self, name: str, *command: str, kind: JobKind = JobKind.MPI, **fields: Any) -> JobSpec:
        workers, slots = fields.pop("workers", 2), fields.pop("slots", 2)
        own = {
            "roles": (
                Role(name=RoleName.LAUNCHER, replicas=1),
                Role(name=RoleName.WORKER, replicas=workers, resources=Resources(gpus=slots)),
            ),
            "working_dir": str(self.folder),
        }
        return JobSpec(name=name, namespace="default", kind=kind, command=command, **{**own, **fields})

    def submit(self, spec: JobSpec) -> None:
        assert list(self.jobs.problems(spec)) == []
        self.jobs.submit(spec)

    def view(self, name: str) -> JobView:
        return self.jobs.get("default", name, None, events=True)

    def wait(self, name: str, phase: JobPhase) -> JobView:
        eventually(lambda: self.view(name).phase is phase, lambda: (self.view(name), self.log(name)))
        return self.view(name)

    def log(self, name: str, **wish: Any) -> str:
        return without_warnings(b"".join(self.jobs.logs(self.view(name), LogWish(**wish))).decode())

    def said(self, name: str, word: str) -> None:
        """Waits until the program has said a word."""
        eventually(lambda: word in self.log(name), lambda: (self.view(name), self.log(name)))

    def delete(self, name: str) -> None:
        assert self.jobs.delete(self.view(name))

    def arena(self, *words: str, code: int = 0) -> str:
        """What the command `arena` told on standard output; it must end with this code."""
        with self.beginning(*words) as begun:
            told, complaints = begun.communicate(timeout=DEADLINE_S)
        assert begun.returncode == code, told + complaints
        return told

    @contextmanager
    def beginning(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """The same as it goes on, in a session of its own; it is killed at the end if it still runs."""
        begun = subprocess.Popen(
            [ARENA, *words],
            env=self.shell.full_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with begun:
            try:
                yield begun
            finally:
                begun.kill()

    def namespace(self, node: str) -> str:
        """The network namespace that a node is."""
        return f"headrace-local-{LocalClient(self.places).hello().instance}-{node}"

    def load(self, name: str, *paths: str) -> None:
        """Brings parts of a dataset into its cache, and waits until they are there."""
        file = self.folder / "load.yaml"
        file.write_text(LOAD.format(name=name, paths=", ".join(f"{{path: /{path}}}" for path in paths)))
        self.shell.must("apply", "-f", file)
        self.shell.must(
            *("wait", f"dataload/{name}", "--for=jsonpath={.status.phase}=Complete", "--timeout", "2m")
        )

    def processes(self, instance: str = "") -> dict[str, list[int]]:
        """Those of jobs, by instance."""
        found: dict[str, list[int]] = {}
        for each in tagged_processes(LocalClient(self.places).hello().instance):
            if each.role.startswith("training:") and each.role.endswith(instance):
                found.setdefault(each.role.rpartition(":")[2], []).append(each.pid)
        return found

    def first(self, instance: str) -> int:
        """The process of an instance itself."""
        roles = LocalClient(self.places).status().roles
        return next(line.pid or 0 for line in roles if line.id.endswith(f":{instance}"))

    def dataset(self, name: str) -> None:
        file = self.folder / "objects.yaml"
        file.write_text(DATASET.format(name=name, folder=self.folder))
        self.shell.must("apply", "-f", file)
        self.shell.must("wait", f"dataset/{name}", "--for=jsonpath={.status.phase}=Bound", "--timeout", "2m")
