"""The calls of an API server that jobs need: what the backend, the keeper and the doubles of tests have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from headrace.kube.client import KubeClient
from headrace.kube.pod_logs import LogQuery, log_lines
from headrace.kubeflow.names import Content

Labels = Mapping[str, str | None]


class Cluster(Protocol):
    """Objects, and what pods print. Calls raise errors of Headrace that name the object."""

    async def get(self, kind: str, namespace: str | None, name: str) -> Content | None:
        """The object, or `None`."""

    async def list(
        self, kind: str, namespace: str | None = None, labels: Labels | None = None, fields: str = ""
    ) -> list[Content]:
        """All objects of a kind; of all namespaces without one."""

    async def create(self, content: Content, *, trial: bool = False) -> Content:
        """Makes a new object; `ConflictError` when there is one."""

    async def patch(
        self, kind: str, namespace: str | None, name: str, body: Content, subresource: str = ""
    ) -> Content:
        """Merges into the object."""

    async def delete(
        self, kind: str, namespace: str | None, name: str, *, uid: str = "", grace_s: int | None = None
    ) -> None:
        """Deletes the object, if it is there."""

    def log(self, namespace: str, pod: str, query: LogQuery) -> AsyncIterator[bytes]:
        """Lines of a container."""


class KubeCluster(KubeClient):
    """A `KubeClient` with the logs of pods."""

    def log(self, namespace: str, pod: str, query: LogQuery) -> AsyncIterator[bytes]:
        """Lines of a container, with their ends."""
        return log_lines(self, namespace, pod, query)
