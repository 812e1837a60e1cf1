"""The interface of a backend for the commands on jobs: Kubernetes (`headrace.kubeflow`) or one machine
(`headrace.local`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from headrace.jobs.spec import JobKind, JobSpec
from headrace.jobs.views import ClaimView, JobView, NodeRoom


@dataclass(frozen=True, slots=True)
class LogWish:
    """A selection of log lines and instances."""

    instance: str = ""
    """Empty: the chief."""
    container: str = ""
    follow: bool = False
    tail: int | None = None
    """None: all."""
    since: datetime | None = None
    timestamps: bool = False
    all_instances: bool = False
    """Of every instance, each line behind its name."""


class JobBackend(Protocol):
    """A backend that runs jobs. Every method raises `HeadraceError` with words for a person; a job that is not there is
    a `MissingJobError` (`headrace.errors`), a name that two kinds share an `AmbiguousJobError`."""

    @property
    def default_namespace(self) -> str:
        """The namespace of commands that name none: the context's of a kubeconfig, else `default`."""

    @property
    def needs_images(self) -> bool:
        """False where processes run as they are, and images have no meaning."""

    def notices(self, spec: JobSpec) -> Sequence[str]:
        """The parts of the request that are ignored here, each as a sentence. They are told, and the job is made
        all the same."""

    def problems(self, spec: JobSpec) -> Sequence[str]:
        """The obstacles to submitting, each a sentence that says what to do: claims that are missing or unbound, a job
        of that name, a priority class that is not there, too few nodes. Empty: none. Changes nothing."""

    def objects(self, spec: JobSpec) -> Sequence[dict[str, Any]]:
        """The Kubernetes objects that `submit` would create here, without secrets' values. Creates nothing."""

    def submit(self, spec: JobSpec) -> Sequence[str]:
        """Creates the job, all of it or nothing; the created objects, as `mpijob.kubeflow.org/name`."""

    def get(self, namespace: str, name: str, kind: JobKind | None, *, events: bool = False) -> JobView:
        """One job; `events` asks for what happened to it as well."""

    def jobs(self, namespace: str | None, kind: JobKind | None = None) -> Sequence[JobView]:
        """All jobs of a namespace (None: of all), the newest first."""

    def logs(self, job: JobView, wish: LogWish) -> Iterator[bytes]:
        """Lines with their ends, also of instances that are gone. Ends at the end of what is there, or of the job."""

    def delete(self, job: JobView) -> Sequence[str]:
        """Ends and deletes it and all that was made for it; the deleted objects, as `mpijob.kubeflow.org/name`."""

    def tend(self, job: JobView) -> None:
        """Does what the job needs from outside, where no keeper does it: starts one whose data is warm, frees the
        volumes of one that has ended. May be called at any time; does nothing where nothing is to be done."""

    def release(self, job: JobView) -> Sequence[str]:
        """Starts a job that waits for its data, without waiting any longer; frees the volumes that an ended one still
        holds. Each thing that was done, as a sentence. Raises `ConfigError` for a job that runs."""

    def attach(self, job: JobView, instance: str, container: str, command: Sequence[str]) -> int:
        """Runs a program in a running instance with this terminal; its exit code."""

    def claims(self, namespace: str | None) -> Sequence[ClaimView]:
        """Volumes that a job may name."""

    def nodes(self) -> Sequence[NodeRoom]:
        """Nodes that jobs may run on, and their GPUs."""
