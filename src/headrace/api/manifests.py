"""YAML as objects. Every fault of every document is told, with the line, the field, and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from headrace.api.base import Place
from headrace.api.explaining import explain, nearest, path_text
from headrace.api.kinds import KINDS, Kind, kind_of
from headrace.api.names import OTHER_RUNTIMES
from headrace.errors import ConfigError
from headrace.settings.yaml_streams import StreamDocument, read_stream

if TYPE_CHECKING:
    from headrace.api.kinds import Object

_MOST_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: where, in which object, at which field."""

    source: str
    line: int
    subject: str
    path: str
    problem: str

    def __str__(self) -> str:
        """`dataset.yaml line 7: Dataset imagenet: spec.owner.guid: unknown field; did you mean 'gid'?`."""
        parts = [f"{self.source} line {self.line}" if self.line else self.source, self.subject, self.path]
        return ": ".join([part for part in parts if part] + [self.problem])


class InvalidObjectsError(ConfigError):
    """Objects cannot be taken as they are; `faults` says why, the message holds a line for each.

    `sound` are the objects beside them that could be.
    """

    faults: tuple[Fault, ...] = ()
    sound: tuple[Object, ...] = ()

    @classmethod
    def of_faults(cls, faults: list[Fault], sound: Iterable[Object] = ()) -> InvalidObjectsError:
        """The error of these faults."""
        lines = [str(fault) for fault in faults[:_MOST_SHOWN]]
        if len(faults) > _MOST_SHOWN:
            lines.append(f"... and {len(faults) - _MOST_SHOWN} more")
        error = cls.of("\n".join(lines))
        error.faults, error.sound = tuple(faults), tuple(sound)
        return error


@dataclass(frozen=True, slots=True)
class Declared:
    """An object and the line on which its document begins."""

    thing: Object
    line: int


def read_objects(text: str, source: str) -> list[Object]:
    """The objects of a text in their order; `source` is its name in errors. Raises `ConfigError`."""
    return [declared.thing for declared in read_declared(text, source)]


def read_declared(text: str, source: str) -> list[Declared]:
    """The same with lines."""
    faults: list[Fault] = []
    found: list[Declared] = []
    for whole in read_stream(text, source):
        for document in _documents(whole):
            thing = _read_document(document, source, faults)
            if thing is not None:
                found.append(Declared(thing, document.first_line))
    found = _once(found, source, faults)
    if faults:
        sound = [declared.thing for declared in found]
        raise InvalidObjectsError.of_faults(sorted(faults, key=lambda fault: fault.line), sound)
    return found


def object_of(content: Mapping[str, Any], source: str = "object", *, lenient: bool = False) -> Object:
    """The object of plain values, such as the API server's JSON. Raises `ConfigError`.

    `lenient` leaves out unknown fields: those of a newer release that wrote the object.
    """
    document = StreamDocument(dict(content), 0)
    faults: list[Fault] = []
    thing = _read_document(document, source, faults, lenient=lenient)
    if thing is None:
        raise InvalidObjectsError.of_faults(faults)
    return thing


def _documents(whole: StreamDocument) -> list[StreamDocument]:
    """The documents of a `List`, which `kubectl get -o yaml` prints; else the one document."""
    content = whole.content
    is_list = (
        isinstance(content, Mapping) and content.get("kind") == "List" and content.get("apiVersion") == "v1"
    )
    if is_list and isinstance(content.get("items"), list) and content["items"]:
        return whole.parts("items")
    return [whole]


def _read_document(
    document: StreamDocument, source: str, faults: list[Fault], *, lenient: bool = False
) -> Object | None:
    subject = _subject(document.content)
    before = len(faults)
    faults += [Fault(source, line, subject, "", problem) for line, problem in document.faults]
    kind = _kind(document, source, faults)
    if kind is None:
        return None
    try:
        thing: Object = _validated(kind, document.content, lenient)
    except ValidationError as error:
        for place, problem in explain(error, kind.model):
            faults.append(Fault(source, document.line(place), subject, path_text(place), problem))
        return None
    return thing if len(faults) == before else None


def _validated(kind: Kind, content: Any, lenient: bool) -> Any:
    try:
        return kind.model.model_validate(content, by_alias=True, by_name=False)
    except ValidationError as error:
        unknown = [fault["loc"] for fault in error.errors() if fault["type"] == "extra_forbidden"]
        if not lenient or not unknown:
            raise
    return kind.model.model_validate(_without(content, frozenset(unknown), ()), by_alias=True, by_name=False)


def _without(value: Any, unknown: frozenset[Place], place: Place) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _without(each, unknown, (*place, key))
            for key, each in value.items()
            if (*place, key) not in unknown
        }
    if isinstance(value, list):
        return [_without(each, unknown, (*place, number)) for number, each in enumerate(value)]
    return value


def _kind(document: StreamDocument, source: str, faults: list[Fault]) -> Kind | None:
    """The kind that a document says it is."""
    content = document.content
    if not isinstance(content, Mapping):
        faults.append(
            Fault(source, document.first_line, "", "", "KEY: VALUE pairs are expected: apiVersion, kind, ...")
        )
        return None
    name, version = content.get("kind"), content.get("apiVersion")
    if not isinstance(name, str) or name not in KINDS:
        faults.append(Fault(source, document.line(("kind",)), "", "kind", _kind_problem(name)))
        return None
    kind = KINDS[name]
    if version == kind.api_version:
        return kind
    found = "is missing" if version is None else f"'{str(version)[:64]}' is not allowed"
    problem = f"{found}; allowed for {name}: {kind.api_version}"
    faults.append(Fault(source, document.line(("apiVersion",)), _subject(content), "apiVersion", problem))
    return None


def _kind_problem(name: Any) -> str:
    if name is None:
        return f"is missing; allowed: {', '.join(KINDS)}"
    if name in OTHER_RUNTIMES:
        return (
            f"{name} is for an engine of another project, and Headrace has one of its own: "
            "write AlluxioRuntime or JindoRuntime"
        )
    near = nearest(str(name), KINDS)
    hint = f"did you mean {near}?" if near else f"allowed: {', '.join(KINDS)}"
    return f"'{str(name)[:64]}' is not known here; {hint}"


def _subject(content: Any) -> str:
    """`Dataset imagenet`, as far as the document says."""
    if not isinstance(content, Mapping):
        return ""
    metadata = content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return " ".join(each[:64] for each in (content.get("kind"), name) if isinstance(each, str))


def _once(found: list[Declared], source: str, faults: list[Fault]) -> list[Declared]:
    """Each object once. The same text twice is what `cat >> FILE` leaves behind when it is run again; two different
    objects of one name are a mistake."""
    first: dict[tuple[str, str | None, str], Declared] = {}
    for declared in found:
        thing, kind = declared.thing, kind_of(declared.thing)
        earlier = first.setdefault((kind.name, thing.namespace, thing.name), declared)
        if earlier.thing != thing:
            problem = (
                f"is declared on line {earlier.line} already, and is another one there: keep one of them"
            )
            faults.append(Fault(source, declared.line, f"{kind.name} {thing.name}", "", problem))
    return list(first.values())
