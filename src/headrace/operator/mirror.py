"""The mirror of the API server, as far as it matters to datasets, kept up to date by watches: a pass costs no request.

Of pods only those are kept that are ours, the driver's or use a claim, and of those only what is looked at; of Secrets
only the keys, each with a digest of its value. Values of Secrets never stay in memory. The digests never leave it as
they are: a short value could be guessed from one. Digests that others may see are keyed (`token_digests.Notes`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.operator.rendering.naming import (
    APPLICATION,
    COMPONENT_LABEL,
    DRIVER,
    MANAGED_LABEL,
    MANAGER,
    NAME_LABEL,
)

_OF_A_STATUS = (
    *("phase", "podIP", "startTime", "conditions", "reason", "message"),
    *("containerStatuses", "initContainerStatuses"),
)

Content = dict[str, Any]
Name = tuple[str, str]
"""Namespace (empty for objects without one) and name."""


@dataclass(frozen=True, slots=True)
class Index:
    """Objects of a kind by what they say: `keys` tells under which keys one is to be found."""

    kind: str
    keys: Callable[[Content], Iterable[Hashable]]


class Mirror:
    """All objects that are followed. Used from one event loop."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._objects: defaultdict[str, defaultdict[str, dict[str, Content]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        """By kind, namespace and name: who asks for one namespace does not go through all of them."""
        self._indexes: dict[Index, defaultdict[Hashable, dict[Name, Content]]] = {}

    def get(self, kind: str, namespace: str, name: str) -> Content | None:
        """The object as it was seen last."""
        return self._objects[kind].get(namespace, {}).get(name)

    def all(self, kind: str, namespace: str | None = None) -> Iterator[Content]:
        """All objects of a kind, of one namespace if one is given."""
        spaces = self._objects[kind]
        for space in spaces.values() if namespace is None else (spaces.get(namespace, {}),):
            yield from space.values()

    def having(self, index: Index, key: Hashable) -> list[Content]:
        """The objects under a key of an index, which is made with the first question and kept from then on."""
        known = self._indexes.get(index)
        if known is None:
            known = self._indexes[index] = defaultdict(dict)
            for content in self.all(index.kind):
                _enter(known, index, content)
        return list(known[key].values()) if key in known else []

    def put(self, kind: str, content: Content) -> tuple[Content | None, Content | None]:
        """Takes in an object that was seen; what was known before, and what is kept of it now."""
        name, kept = name_of(content), self._kept(kind, content)
        if kept is None:
            return self.drop(kind, name), None
        before = self.drop(kind, name)
        self._objects[kind][name[0]][name[1]] = kept
        for index, known in self._indexes.items():
            if index.kind == kind:
                _enter(known, index, kept)
        return before, kept

    def drop(self, kind: str, name: Name) -> Content | None:
        """The object is gone; what was known of it."""
        space = self._objects[kind].get(name[0], {})
        known = space.pop(name[1], None)
        if not space:
            self._objects[kind].pop(name[0], None)
        if known is not None:
            self._leave(kind, name, known)
        return known

    def _leave(self, kind: str, name: Name, content: Content) -> None:
        for index, known in self._indexes.items():
            for key in set(index.keys(content)) if index.kind == kind else ():
                known[key].pop(name, None)
                if not known[key]:
                    del known[key]

    def missing(self, kind: str, seen: Iterable[Name]) -> list[Name]:
        """The kept objects that were not seen when all were listed: they went while nobody watched."""
        there = set(seen)
        return [name for name in map(name_of, self.all(kind)) if name not in there]

    def derived(self, *words: str) -> str:
        """64 hexadecimal digits that follow from these words and the operator's key, and from nothing that is seen."""
        text = "\0".join(words).encode()
        return hashlib.blake2b(text, key=self._key, digest_size=32, person=b"headrace-derived").hexdigest()

    def _kept(self, kind: str, content: Content) -> Content | None:
        if kind == "Secret":
            return _secret(content)
        if kind == "Pod":
            return kept_of_pod(content)
        return _without_history(content)


def _enter(known: defaultdict[Hashable, dict[Name, Content]], index: Index, content: Content) -> None:
    for key in set(index.keys(content)):
        known[key][name_of(content)] = content


def name_of(content: Mapping[str, Any]) -> Name:
    """Namespace and name of an object."""
    metadata = content["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def digest_of_value(value: bytes) -> str:
    """A digest that changes with the value, the same in every operator. It is for this process alone."""
    return hashlib.blake2b(value, digest_size=32, person=b"headrace-secret").hexdigest()


def _without_history(content: Content) -> Content:
    metadata = {key: value for key, value in content["metadata"].items() if key != "managedFields"}
    return {**content, "metadata": metadata}


def _secret(content: Content) -> Content:
    digests = {name: digest_of_value(_decoded(value)) for name, value in (content.get("data") or {}).items()}
    return {"metadata": _metadata(content), "digests": digests}


def _decoded(value: str | None) -> bytes:
    try:
        return base64.b64decode(value or "")
    except (binascii.Error, ValueError):
        return (value or "").encode()


def kept_of_pod(content: Content) -> Content | None:
    """The kept part of a pod; `None` for one that matters to no dataset."""
    metadata, spec, status = content["metadata"], content.get("spec") or {}, content.get("status") or {}
    claims = _claims_of_volumes(content)
    labels = metadata.get("labels") or {}
    if labels.get(MANAGED_LABEL) != MANAGER and not claims and not is_driver(labels):
        return None
    return {
        "metadata": _metadata(content),
        "spec": {
            "nodeName": spec.get("nodeName") or "",
            "claims": sorted({*claims.values()}),
            "volumes": claims,
        },
        "status": {key: status.get(key) for key in _OF_A_STATUS},
    }


def is_driver(labels: Mapping[str, str]) -> bool:
    """True for the pods of the driver, which belong to the chart."""
    return labels.get(NAME_LABEL) == APPLICATION and labels.get(COMPONENT_LABEL) == DRIVER


def _claims_of_volumes(content: Content) -> dict[str, str]:
    """The claims that a pod's volumes name, by the volumes; those of ephemeral volumes are the pod's own."""
    volumes = (content.get("spec") or {}).get("volumes") or ()
    named = {each.get("name", ""): each.get("persistentVolumeClaim") for each in volumes}
    return {volume: each["claimName"] for volume, each in named.items() if each}


def _metadata(content: Content) -> Content:
    wanted = (
        *("name", "namespace", "uid", "labels", "annotations", "resourceVersion"),
        *("creationTimestamp", "deletionTimestamp", "ownerReferences"),
    )
    return {key: value for key, value in content["metadata"].items() if key in wanted}
