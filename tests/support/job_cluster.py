"""A cluster in memory for training jobs: objects, lists of them, what pods print, which kinds are served."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Mapping
from typing import Any

from memory_cluster import MemoryCluster

from headrace.errors import ConfigError, MissingFileError, RefusedError
from headrace.kube.faults import ConflictError
from headrace.kube.pod_logs import LogQuery
from headrace.kube.resources import Resource

Content = dict[str, Any]


class JobCluster(MemoryCluster):
    """Has the calls that the backend and the keeper make. Times of objects are kept as they were given."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: dict[str, list[bytes]] = {}
        """By pod: lines with their moments. A pod without any has not begun."""
        self.unread: set[str] = set()
        """Pods whose node does not answer."""
        self.served: dict[str, dict[str, str]] = {
            "kubeflow.org": {"MPIJob": "v2beta1", "PyTorchJob": "v1", "TFJob": "v1"}
        }
        self.spoken: dict[str, str] = {}
        self.paths: set[str] = set()
        """Other paths at which there is something."""
        self.fields: dict[str, tuple[str, ...]] = {}
        """By kind: the fields of its spec, where the server publishes a schema."""

    def put(self, *contents: Content) -> None:
        """Objects as they are, with the identities that they say."""
        for content in contents:
            self._store(self._key(content), copy.deepcopy(content))

    async def create(self, content: Content, *, trial: bool = False) -> Content:
        if not trial:
            return await super().create(content)
        if self._key(content) in self.objects:
            raise ConflictError.of("there is one")
        return content

    async def list(
        self,
        kind: str,
        namespace: str | None = None,
        labels: Mapping[str, str | None] | None = None,
        fields: str = "",
    ) -> list[Content]:
        if ("list", kind) in self.refused:
            raise RefusedError.of(f"Kubernetes refuses to list {kind}: forbidden")
        name = fields.partition("metadata.name=")[2]
        return [
            copy.deepcopy(each)
            for each in self.of(kind)
            if namespace in (None, each["metadata"].get("namespace"))
            and _has(each, labels or {})
            and name in ("", each["metadata"]["name"])
        ]

    async def log(self, namespace: str, pod: str, query: LogQuery) -> AsyncIterator[bytes]:
        if ("Pod", namespace, pod) not in self.objects:
            raise MissingFileError.of("there is no such pod")
        if pod in self.unread:
            raise RefusedError.of("its node does not answer")
        if pod not in self.logs:
            raise ConfigError.of(f"container in pod {pod} is waiting to start")
        lines = self.logs[pod]
        for line in lines if query.tail is None else lines[-query.tail :]:
            yield line if query.timestamps else line.partition(b" ")[2]

    async def read(self, path: str, what: str) -> Content:
        if path.startswith("/openapi/v3/apis/"):
            return _schemas(path, self.fields)
        group, _, version = path.removeprefix("/apis/").partition("/")
        kinds = self.served.get(group)
        if path in self.paths:
            return {}
        if kinds is None or "/" in version:
            raise MissingFileError.of(f"{what}: there is none")
        if not version:
            return {"versions": [{"version": each} for each in dict.fromkeys(kinds.values())]}
        named = [{"name": kind.lower(), "kind": kind} for kind, each in kinds.items() if each == version]
        return {"resources": named}

    def serve(self, resource: Resource) -> None:
        self.spoken[resource.kind] = resource.version


def _schemas(path: str, fields: Mapping[str, tuple[str, ...]]) -> Content:
    group, version = path.split("/")[-2:]
    schemas = {
        f"io.{kind}": {
            "properties": {"spec": {"properties": {key: {} for key in known}}},
            "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": kind}],
        }
        for kind, known in fields.items()
    }
    return {"components": {"schemas": schemas}}


def _has(content: Content, labels: Mapping[str, str | None]) -> bool:
    own = content["metadata"].get("labels") or {}
    return all(key in own and value in (None, own[key]) for key, value in labels.items())
