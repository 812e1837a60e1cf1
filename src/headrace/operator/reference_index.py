"""To whom a change matters: from an object that changed to the datasets to reconcile. Pure, over the mirror."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from headrace.api.kinds import OPERATIONS, RUNTIMES
from headrace.operator.mirror import Content, Index, Mirror, name_of
from headrace.operator.rendering.naming import HOME_LABEL, dataset_name_of
from headrace.work_queue import Dataset as Key


def affected_datasets(mirror: Mirror, kind: str, before: Content | None, now: Content | None) -> set[Key]:
    """The datasets to reconcile after a change."""
    seen = [each for each in (before, now) if each is not None]
    if not seen:
        return set()
    if kind in ("Dataset", *RUNTIMES, *OPERATIONS):
        found = _of_declaration(mirror, kind, seen, is_gone=now is None)
        return (found - _sayers(kind, before, now)) | _owners(kind, before, now)
    if kind == "Node":
        return _all(mirror) if before is None or now is None or _matters(before) != _matters(now) else set()
    own = _OWN.get(kind, _of_workload)
    return {each for content in seen for each in own(mirror, content)}


def _sayers(kind: str, before: Content | None, now: Content | None) -> set[Key]:
    """The dataset in whose passes a status was said, if nothing but that has changed: it knows what it said.

    A pass that woke itself would never end while data is read, as its numbers change each time.
    """
    if before is None or now is None or _declared(before) != _declared(now):
        return set()
    return set(dataset_keys(now)[:1]) if kind in OPERATIONS else {name_of(now)}


def _owners(kind: str, before: Content | None, now: Content | None) -> set[Key]:
    """The datasets that a Dataset refers to, or did, when that may be news for them: what is said of it is none."""
    if kind != "Dataset" or (before and now and _declared(before) == _declared(now)):
        return set()
    return {key for content in (before, now) if content for key in _referred(content)}


def _declared(content: Content) -> Content:
    metadata = {key: value for key, value in content["metadata"].items() if key != "resourceVersion"}
    return {**{key: value for key, value in content.items() if key != "status"}, "metadata": metadata}


def _of_declaration(mirror: Mirror, kind: str, seen: list[Content], *, is_gone: bool) -> set[Key]:
    key = name_of(seen[0])
    if kind == "Dataset":
        return {key, *referrers_of(mirror, key)} | (_lacking(mirror) if is_gone else set())
    if kind in RUNTIMES:
        return {key, *_operated(mirror, key)}
    return {each for content in seen for each in dataset_keys(content)} | _after(mirror, kind, key)


def referrers_of(mirror: Mirror, key: Key) -> Iterator[Key]:
    """Datasets with a mount that refers to this one."""
    return map(name_of, mirror.having(_REFERRERS, key))


def _referred(dataset: Content) -> Iterator[Key]:
    for mount in (dataset.get("spec") or {}).get("mounts") or ():
        scheme, _, rest = str(mount.get("mountPoint", "")).partition("://")
        namespace, *names = rest.split("/")
        if scheme == "dataset" and names:
            yield namespace, names[0]


_REFERRERS = Index("Dataset", _referred)


def dataset_keys(operation: Content) -> list[Key]:
    """The datasets that an operation names; the first is the one in whose passes it is planned."""
    spec = operation.get("spec") or {}
    namespace = operation["metadata"].get("namespace") or "default"
    parts = [spec, spec.get("from") or {}, spec.get("to") or {}]
    named = [part.get("dataset") for part in parts]
    found = [
        (each.get("namespace") or namespace, each["name"])
        for each in named
        if isinstance(each, dict) and each.get("name")
    ]
    backup = spec.get("dataset")
    return [*found, (namespace, backup)] if isinstance(backup, str) else found


def operations_of(mirror: Mirror, key: Key) -> list[tuple[str, Content]]:
    """The operations that are planned in the passes of a dataset, with their kinds."""
    return [(index.kind, content) for index in _PLANNED_WITH for content in mirror.having(index, key)]


def _home(operation: Content) -> list[Key]:
    return dataset_keys(operation)[:1]


_PLANNED_WITH = tuple(Index(kind, _home) for kind in OPERATIONS)


def pods_of(mirror: Mirror, key: Key) -> list[Content]:
    """The pods that were made for a dataset, also those that run elsewhere for it."""
    return mirror.having(_PODS, key)


def users_of(mirror: Mirror, key: Key) -> list[Content]:
    """The pods that name the claim of a dataset."""
    return mirror.having(_USERS, key)


def _operated(mirror: Mirror, key: Key) -> set[Key]:
    return {key, *(each for kind, content in operations_of(mirror, key) for each in dataset_keys(content))}


def _after(mirror: Mirror, kind: str, key: Key) -> set[Key]:
    """Datasets whose operations wait for this one."""
    waiting = (content for index in _WAITING for content in mirror.having(index, (kind, *key)))
    return {home for content in waiting for home in _home(content)}


def _predecessors(operation: Content) -> Iterator[tuple[str, str, str]]:
    after = (operation.get("spec") or {}).get("runAfter")
    if after:
        place = after.get("namespace") or operation["metadata"].get("namespace")
        yield str(after.get("kind")), str(place), str(after.get("name"))


_WAITING = tuple(Index(kind, _predecessors) for kind in OPERATIONS)


def _of_pod(mirror: Mirror, pod: Content) -> Iterator[Key]:
    namespace = pod["metadata"].get("namespace") or "default"
    if owner := _owned(pod):
        yield owner
    for claim in pod["spec"]["claims"]:
        if mirror.get("Dataset", namespace, claim):
            yield namespace, claim


def _owned(content: Content) -> Key | None:
    metadata = content["metadata"]
    name = dataset_name_of(metadata)
    home = (metadata.get("labels") or {}).get(HOME_LABEL) or metadata.get("namespace")
    return (home, name) if name and home else None


def _makers(pod: Content) -> Iterator[Key]:
    if owner := _owned(pod):
        yield owner


def _claims(pod: Content) -> Iterator[Key]:
    for claim in pod["spec"]["claims"]:
        yield pod["metadata"].get("namespace") or "default", claim


_PODS, _USERS = Index("Pod", _makers), Index("Pod", _claims)


def _of_workload(mirror: Mirror, content: Content) -> Iterator[Key]:  # noqa: ARG001 - one of a table
    if owner := _owned(content):
        yield owner


def _of_secret(mirror: Mirror, content: Content) -> Iterator[Key]:
    if owner := _owned(content):
        # Its token, which those have, too, that refer to it.
        yield owner
        yield from referrers_of(mirror, owner)
    yield from _naming(mirror, "Secret", name_of(content))


def _of_claim(mirror: Mirror, content: Content) -> Iterator[Key]:
    yield from _naming(mirror, "PersistentVolumeClaim", name_of(content))


def _naming(mirror: Mirror, kind: str, key: Key) -> Iterator[Key]:
    """Datasets of the namespace that name a Secret or a claim, and those that refer to them."""
    is_declared = kind == "PersistentVolumeClaim" and any(
        mirror.get(each, *key) for each in ("Dataset", *RUNTIMES)
    )
    holders = {name_of(content) for index in _HOLDERS for content in mirror.having(index, key)}
    for own in holders | ({key} if is_declared else set()):
        yield own
        yield from referrers_of(mirror, own)
    for index in _USING:
        for content in mirror.having(index, key):
            yield from _home(content)


def _named(content: Content) -> Iterator[Key]:
    """All words of the spec, each with the namespace: more passes than needed cost little, a missing one much."""
    namespace = content["metadata"].get("namespace") or "default"
    for word in _words(content.get("spec")):
        yield namespace, word
        if word.startswith("pvc://"):
            yield namespace, word.removeprefix("pvc://").partition("/")[0]


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield str(key)
            yield from _words(each)
    elif isinstance(value, list):
        for each in value:
            yield from _words(each)


_HOLDERS = tuple(Index(kind, _named) for kind in ("Dataset", *RUNTIMES))
_USING = tuple(Index(kind, _named) for kind in OPERATIONS)


def _of_volume(mirror: Mirror, volume: Content) -> Iterator[Key]:
    claim = (volume.get("spec") or {}).get("claimRef") or {}
    key = (claim.get("namespace") or "default", claim.get("name") or volume["metadata"]["name"])
    if mirror.get("Dataset", *key):
        yield key
    yield from _naming(mirror, "PersistentVolumeClaim", key)


_OWN: dict[str, Callable[[Mirror, Content], Iterator[Key]]] = {
    "Pod": _of_pod,
    "Secret": _of_secret,
    "PersistentVolumeClaim": _of_claim,
    "PersistentVolume": _of_volume,
}
"""Kinds that people and Kubernetes change; any other is one of ours, which its labels tell."""


def _matters(node: Content) -> Any:
    """What of a node counts: labels, taints, whether it is ready; not its heartbeat."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = [each.get("status") for each in conditions if each.get("type") == "Ready"]
    spec = node.get("spec") or {}
    return node["metadata"].get("labels"), spec.get("taints"), spec.get("unschedulable"), ready


def _all(mirror: Mirror) -> set[Key]:
    return {name_of(content) for kind in ("Dataset", *RUNTIMES) for content in mirror.all(kind)}


def _lacking(mirror: Mirror) -> set[Key]:
    """Datasets that may have waited for the nodes of one that is gone."""
    return {
        name_of(content)
        for content in mirror.all("Dataset")
        if (content.get("status") or {}).get("phase") != "Bound"
    }
