"""Which kinds of a group the API server serves, and in which versions."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from headrace.errors import MissingFileError
from headrace.kube.client import Content
from headrace.kube.resources import RESOURCES, Resource


class Reader(Protocol):
    """The call of a `KubeClient` that discovery needs."""

    async def read(self, path: str, what: str) -> Content:
        """The answer at a path that is no object's."""


async def served_versions(client: Reader, group: str) -> dict[str, tuple[str, ...]]:
    """The versions of each kind of a group, as the server prefers them; nothing when it has no such group."""
    try:
        found = await client.read(f"/apis/{group}", f"read the API group {group}")
    except MissingFileError:
        return {}
    versions: dict[str, tuple[str, ...]] = {}
    for version in (str(each["version"]) for each in found.get("versions") or ()):
        for kind in await _kinds(client, group, version):
            versions[kind] = (*versions.get(kind, ()), version)
    return versions


async def _kinds(client: Reader, group: str, version: str) -> set[str]:
    try:
        found = await client.read(f"/apis/{group}/{version}", f"read the API group {group}/{version}")
    except MissingFileError:
        # It went between the two questions.
        return set()
    return {str(each["kind"]) for each in found.get("resources") or () if "/" not in each["name"]}


def at_version(kind: str, version: str) -> Resource:
    """Where a known kind stands when the cluster serves this version of it."""
    return replace(RESOURCES[kind], version=version)
