"""Jobs of operations in the cluster: made once a run, found in the mirror, taken away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.api.kinds import Operation
from headrace.kube.client import Content, KubeClient
from headrace.kube.faults import ConflictError
from headrace.operator.mirror import Mirror
from headrace.operator.operations.job_status import JobStatus, job_status
from headrace.operator.rendering.job_objects import job_name
from headrace.operator.rendering.naming import OPERATION_LABEL

_JOB_LABELS = ("batch.kubernetes.io/job-name", "job-name")


@dataclass(frozen=True, slots=True)
class KubernetesJobs:
    """The common steps of all kinds of work that are Jobs."""

    client: KubeClient
    mirror: Mirror

    async def order(self, operation: Operation, files: Sequence[Content], job: Content) -> None:
        """Creates the Job of a run. A Job that is there stays as it is; those of earlier runs go."""
        name = job["metadata"]["name"]
        for each in self._jobs(operation):
            if each["metadata"]["name"] != name:
                await self._delete(operation, each["metadata"]["name"])
        for content in files:
            await self.client.apply(content)
        try:
            await self.client.create(job)
        except ConflictError:
            # Ordered already, by who was operator before or before the mirror told of it.
            return

    async def status(self, operation: Operation, run: str) -> JobStatus | None:
        """The state of a run's Job; `None` when nothing is left of it, or it was never made."""
        name, namespace = job_name(operation, run), operation.namespace or "default"
        job = self.mirror.get("Job", namespace, name)
        pods = [pod for pod in self._pods(operation) if _job_of(pod) == name]
        if job is None and not pods:
            # The mirror may be behind what was just made: only the API server knows that it is not there.
            job = await self.client.get("Job", namespace, name)
        return job_status(job, pods)

    async def remove(self, operation: Operation, run: str) -> None:
        """Deletes the Jobs of an operation, with their pods."""
        names = {each["metadata"]["name"] for each in self._jobs(operation)}
        for name in sorted({*names, job_name(operation, run)}):
            await self._delete(operation, name)

    async def _delete(self, operation: Operation, name: str) -> None:
        await self.client.delete("Job", operation.namespace or "default", name)

    def _jobs(self, operation: Operation) -> list[Content]:
        return list(self._own("Job", operation))

    def _pods(self, operation: Operation) -> Iterator[Content]:
        return self._own("Pod", operation)

    def _own(self, kind: str, operation: Operation) -> Iterator[Content]:
        for content in self.mirror.all(kind, operation.namespace or "default"):
            labels = content["metadata"].get("labels") or {}
            if operation.metadata.uid and labels.get(OPERATION_LABEL) == operation.metadata.uid:
                yield content


def _job_of(pod: Content) -> str:
    labels = pod["metadata"].get("labels") or {}
    return next((str(labels[name]) for name in _JOB_LABELS if name in labels), "")
