"""The files of a job: one folder, open to its owner alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.local.jobs.rank_launcher import INSTANCES, TOKEN_FILE
from headrace.local.layout import BackendLayout


@dataclass(frozen=True, slots=True)
class JobLayout:
    """The files of one job."""

    layout: BackendLayout
    uid: str

    @property
    def folder(self) -> Path:
        """All of them."""
        return self.layout.training / self.uid

    @property
    def spec(self) -> Path:
        """The request, with values of variables and files; gone when the job has ended."""
        return self.folder / "spec.json"

    @property
    def token(self) -> Path:
        """With it ranks may be started in the job's instances."""
        return self.folder / TOKEN_FILE

    @property
    def hostfile(self) -> Path:
        """Open MPI's list of hosts."""
        return self.folder / "hostfile"

    @property
    def hosts(self) -> Path:
        """The file that appears at /etc/hosts."""
        return self.folder / "hosts"

    @property
    def agent(self) -> Path:
        """The program by which `mpirun` starts ranks elsewhere."""
        return self.folder / "agent"

    @property
    def files(self) -> Path:
        """The content of configuration files, each under its number."""
        return self.folder / "files"

    @property
    def code(self) -> Path:
        """The folder of code that was fetched before the job began."""
        return self.folder / "code"

    def instance(self, name: str) -> Path:
        """Orders, state and socket of an instance."""
        return self.folder / INSTANCES / name

    def log(self, name: str) -> Path:
        """The log of an instance; it stays until the job is deleted."""
        return self.folder / "logs" / f"{name}.log"
