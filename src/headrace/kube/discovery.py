"""The kinds of a group that the API server serves, and their versions."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from headrace.errors import MissingFileError, RefusedError
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


async def spec_fields(client: Reader, group: str, version: str, kind: str) -> frozenset[str]:
    """The fields of a kind's spec, by the schema that the server publishes; empty where it tells nothing of them."""
    try:
        found = await client.read(
            f"/openapi/v3/apis/{group}/{version}", f"read the schema of {group}/{version}"
        )
    except (MissingFileError, RefusedError):
        return frozenset()
    schemas = (found.get("components") or {}).get("schemas") or {}
    wanted = {"group": group, "version": version, "kind": kind}
    for schema in schemas.values():
        if wanted in (schema.get("x-kubernetes-group-version-kind") or ()):
            spec = (schema.get("properties") or {}).get("spec") or {}
            return frozenset(spec.get("properties") or ())
    return frozenset()


def at_version(kind: str, version: str) -> Resource:
    """The place of a known kind when the cluster serves this version of it."""
    return replace(RESOURCES[kind], version=version)
