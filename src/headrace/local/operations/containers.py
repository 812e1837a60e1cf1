"""The program of a DataProcess, as this machine can run it: pure, from its script or its pod.

Images are not used: programs run with what is on the machine. A part that cannot be had here and would change what a
program does is refused; one that changes nothing of its work is named as ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from headrace.api.dataprocess import DataProcess, JobProcessor, ScriptProcessor
from headrace.api.ignored import IgnoredField
from headrace.api.scheduling import Toleration
from headrace.api.writing import part_content
from headrace.errors import UnsupportedError

RETRIES = 3
"""How often a program is tried again with restartPolicy OnFailure, as Kubernetes does it for Fluid."""

SCRIPT = "script"
_POD = "spec.processor.job.podSpec"
_HERE = "programs run with what is on this machine"
_POD_FIELDS = frozenset(
    {
        "containers",
        "initContainers",
        "volumes",
        "restartPolicy",
        "nodeSelector",
        "nodeName",
        "securityContext",
    }
)
_CONTAINER_FIELDS = frozenset(
    {"name", "command", "args", "env", "envFrom", "workingDir", "volumeMounts", "securityContext"}
)
_USER_FIELDS = frozenset({"runAsUser", "runAsGroup"})


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the environment: its value, a key of a Secret, or a fact of the pod (`metadata.name`).

    One without a name stands for all keys of a Secret, with `value` before each.
    """

    name: str
    value: str = ""
    secret: str = ""
    key: str = ""
    fact: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Mounted:
    """A volume's place in a container."""

    volume: str
    path: str
    part: str = ""
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Container:
    """A program with its surroundings. A `script` is written to a file, whose path becomes the last word."""

    name: str
    command: tuple[str, ...]
    script: str | None = None
    variables: tuple[Variable, ...] = ()
    mounts: tuple[Mounted, ...] = ()
    folder: str = "/"
    user: int | None = None
    group: int | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """All that is to be run: first those before, one after the other, then the others at the same time."""

    containers: tuple[Container, ...]
    before: tuple[Container, ...] = ()
    volumes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    restarts: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    node: str | None = None
    tolerations: tuple[Toleration, ...] = ()


def pod_of(program: ScriptProcessor | JobProcessor) -> Pod:
    """The pod to run. Raises `UnsupportedError` that names what cannot be done here, by its field."""
    return _script(program) if isinstance(program, ScriptProcessor) else _pod(program.pod_spec)


def ignored_here(process: DataProcess) -> tuple[IgnoredField, ...]:
    """The fields that have no effect on this machine."""
    processor = process.spec.processor
    found = [
        IgnoredField(f"spec.processor.{name}", why)
        for name, value, why in (
            ("serviceAccountName", processor.service_account_name, "there are no accounts here"),
            ("podMetadata", processor.pod_metadata, "there is no pod"),
        )
        if value
    ]
    if processor.script is not None:
        content = part_content(processor.script)
        for name in ("image", "imageTag", "imagePullPolicy", "resources"):
            if content.get(name):
                found.append(IgnoredField(f"spec.processor.script.{name}", _HERE))
    elif processor.job is not None:
        found += _ignored_of_pod(processor.job.pod_spec)
    return tuple(found)


def _ignored_of_pod(spec: Mapping[str, Any]) -> Iterator[IgnoredField]:
    yield from _others(_POD, spec, _POD_FIELDS)
    yield from _others(f"{_POD}.securityContext", spec.get("securityContext") or {}, _USER_FIELDS)
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(kind) or ()):
            if isinstance(container, Mapping):
                place = f"{_POD}.{kind}[{number}]"
                yield from _others(place, container, _CONTAINER_FIELDS)
                context = container.get("securityContext") or {}
                yield from _others(f"{place}.securityContext", context, _USER_FIELDS)


def _others(place: str, content: Mapping[str, Any], known: frozenset[str]) -> Iterator[IgnoredField]:
    for name, value in content.items():
        if name not in known and value not in (None, "", [], {}):
            yield IgnoredField(f"{place}.{name}", _HERE)


def _script(script: ScriptProcessor) -> Pod:
    content = part_content(script)
    place = "spec.processor.script"
    container = Container(
        name=SCRIPT,
        command=tuple(script.command) or ("/bin/sh",),
        script=script.source,
        variables=tuple(_variables(f"{place}.env", content.get("env") or ())),
        mounts=tuple(_mounts(f"{place}.volumeMounts", content.get("volumeMounts") or ())),
    )
    return Pod(
        (container,),
        volumes=_volumes(place, content.get("volumes") or (), (container,)),
        restarts=RETRIES if script.restart_policy == "OnFailure" else 0,
    )


def _pod(spec: Mapping[str, Any]) -> Pod:
    before = tuple(_containers(spec, "initContainers"))
    containers = tuple(_containers(spec, "containers"))
    if not containers:
        raise UnsupportedError.of(f"{_POD}.containers is empty", hint="write what is to be run")
    return Pod(
        containers,
        before,
        volumes=_volumes(_POD, spec.get("volumes") or (), (*before, *containers)),
        restarts=RETRIES if spec.get("restartPolicy") == "OnFailure" else 0,
        labels={str(key): str(value) for key, value in (spec.get("nodeSelector") or {}).items()},
        node=spec.get("nodeName") or None,
        tolerations=tuple(_tolerations(spec.get("tolerations") or ())),
    )


def _tolerations(listed: Sequence[Any]) -> Iterator[Toleration]:
    for number, each in enumerate(listed):
        try:
            yield Toleration.model_validate(each)
        except ValidationError:
            raise _refused(f"{_POD}.tolerations[{number}]", "is no toleration") from None


def _containers(spec: Mapping[str, Any], kind: str) -> Iterator[Container]:
    shared = spec.get("securityContext") or {}
    for number, content in enumerate(spec.get(kind) or ()):
        place = f"{_POD}.{kind}[{number}]"
        if not isinstance(content, Mapping) or not content.get("command"):
            raise _refused(f"{place}.command", "is needed: without images nobody knows what else to run")
        if content.get("restartPolicy"):
            raise _refused(f"{place}.restartPolicy", "is not followed")
        context = {**shared, **(content.get("securityContext") or {})}
        yield Container(
            name=str(content.get("name") or f"{kind}-{number}"),
            command=tuple(map(str, (*content["command"], *(content.get("args") or ())))),
            variables=(
                *_shared_variables(f"{place}.envFrom", content.get("envFrom") or ()),
                *_variables(f"{place}.env", content.get("env") or ()),
            ),
            mounts=tuple(_mounts(f"{place}.volumeMounts", content.get("volumeMounts") or ())),
            folder=str(content.get("workingDir") or "/"),
            user=_number(f"{place}.securityContext.runAsUser", context.get("runAsUser")),
            group=_number(f"{place}.securityContext.runAsGroup", context.get("runAsGroup")),
        )


def _variables(place: str, listed: Sequence[Mapping[str, Any]]) -> Iterator[Variable]:
    for number, each in enumerate(listed):
        name, source = str(each.get("name") or ""), each.get("valueFrom") or {}
        here = f"{place}[{number}].valueFrom"
        if "secretKeyRef" in source:
            key = source["secretKeyRef"]
            optional = bool(key.get("optional"))
            yield Variable(name, secret=str(key.get("name")), key=str(key.get("key")), optional=optional)
        elif "fieldRef" in source:
            yield Variable(name, fact=_fact(here, str(source["fieldRef"].get("fieldPath"))))
        elif source:
            raise _refused(f"{here}.{next(iter(source))}", "is not there on this machine")
        else:
            value = each.get("value")
            yield Variable(name, value="" if value is None else str(value))


def _shared_variables(place: str, listed: Sequence[Mapping[str, Any]]) -> Iterator[Variable]:
    for number, each in enumerate(listed):
        source = each.get("secretRef")
        if not source:
            raise _refused(f"{place}[{number}]", "names no Secret, and there are no ConfigMaps here")
        yield Variable(
            "",
            value=str(each.get("prefix") or ""),
            secret=str(source.get("name")),
            optional=bool(source.get("optional")),
        )


FACTS = ("metadata.name", "metadata.namespace", "spec.nodeName", "status.hostIP", "status.podIP")


def _fact(place: str, path: str) -> str:
    if path not in FACTS:
        raise _refused(f"{place}.fieldRef", f"asks for {path}; known here are {', '.join(FACTS)}")
    return path


def _mounts(place: str, listed: Sequence[Mapping[str, Any]]) -> Iterator[Mounted]:
    for number, each in enumerate(listed):
        path, part = str(each.get("mountPath") or ""), str(each.get("subPath") or "")
        if not path.startswith("/") or ".." in path.split("/") or path.strip("/") == "":
            raise _refused(f"{place}[{number}].mountPath", "is no absolute path below /")
        if part.startswith("/") or ".." in part.split("/"):
            raise _refused(f"{place}[{number}].subPath", "is no relative path without '..'")
        if each.get("subPathExpr"):
            raise _refused(f"{place}[{number}].subPathExpr", "is not known here")
        yield Mounted(str(each.get("name")), path, part, bool(each.get("readOnly")))


_VOLUMES = frozenset({"hostPath", "emptyDir", "persistentVolumeClaim", "secret"})


def _volumes(
    place: str, listed: Sequence[Mapping[str, Any]], containers: Sequence[Container]
) -> dict[str, Mapping[str, Any]]:
    """The volumes that are mounted somewhere; others cost nothing, whatever they are."""
    used = {mount.volume for container in containers for mount in container.mounts}
    found: dict[str, Mapping[str, Any]] = {}
    for number, each in enumerate(listed):
        name = str(each.get("name"))
        kinds = [kind for kind in each if kind != "name" and each[kind] is not None]
        if name not in used:
            continue
        if len(kinds) != 1 or kinds[0] not in _VOLUMES:
            raise _refused(
                f"{place}.volumes[{number}]",
                f"is no volume that this machine has; it has {', '.join(sorted(_VOLUMES))}",
            )
        found[name] = {kinds[0]: each[kinds[0]]}
    for name in sorted(used - set(found)):
        raise _refused(f"{place}.volumes", f"has no volume {name}, which volumeMounts names")
    return found


def _number(place: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _refused(place, "is no number of a user or group")
    return value


def _refused(place: str, why: str) -> UnsupportedError:
    return UnsupportedError.of(f"{place} {why}", hint="change it, or run it in Kubernetes")
