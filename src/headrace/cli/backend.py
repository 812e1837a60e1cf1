"""The common parts of the verbs on declared objects: the backend, namespaces, files, and which objects are meant."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.api.kinds import KINDS, Kind, kind_of, kinds_called
from headrace.api.manifests import InvalidObjectsError, object_of, read_objects
from headrace.cli import printer
from headrace.errors import ConfigError, MissingFileError
from headrace.exits import ExitCode, complaint, exit_code
from headrace.local.layout import BackendLayout
from headrace.local.protocol.client import LocalClient
from headrace.settings.environment import Environment

if TYPE_CHECKING:
    from headrace.api.kinds import Object
    from headrace.local.protocol.messages import Named, Outcome

DEFAULT_NAMESPACE = "default"
_SUFFIXES = (".yaml", ".yml", ".json")

Files = Annotated[
    list[str] | None,
    typer.Option(
        "--filename", "-f", metavar="FILE", help="YAML or JSON; a folder of such files; - for standard input."
    ),
]
NeededFiles = Annotated[
    list[str],
    typer.Option(
        "--filename", "-f", metavar="FILE", help="YAML or JSON; a folder of such files; - for standard input."
    ),
]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAME", help="The namespace; `default` without it.")
]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")]
Resources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KIND[,KIND] [NAME]...", help="`dataset`, `pv,pvc`, `dataset imagenet`, `dataset/imagenet`."
    ),
]


@dataclass(frozen=True, slots=True)
class Asked:
    """Objects that a person means: some kinds, and names if not all are meant."""

    kinds: tuple[Kind, ...]
    names: tuple[str, ...] = ()

    @property
    def kind_names(self) -> list[str]:
        """For the client."""
        return [kind.name for kind in self.kinds]


def places() -> BackendLayout:
    """The local backend of this user."""
    return BackendLayout.of(Environment.current())


def client() -> LocalClient:
    """A client of it."""
    return LocalClient(places())


def asked_for(words: Sequence[str] | None, *, command: str) -> list[Asked]:
    """The objects that `KIND NAME...`, `KIND,KIND` or `KIND/NAME...` name. Raises `ConfigError`."""
    if not words:
        raise ConfigError.of(
            "which objects are meant?", hint=f"headrace {command} dataset imagenet; or -f FILE"
        )
    if any("/" in word for word in words):
        return _by_kind(words)
    first, *names = words
    kinds = tuple(dict.fromkeys(kind for word in first.split(",") for kind in kinds_called(word)))
    if names and len(kinds) > 1:
        raise ConfigError.of("names go with one kind", hint="write KIND/NAME for objects of several kinds")
    return [Asked(kinds, tuple(dict.fromkeys(names)))]


def _by_kind(words: Sequence[str]) -> list[Asked]:
    names: dict[str, list[str]] = {}
    for word in words:
        kind, slash, name = word.partition("/")
        if not slash or not name or "/" in name:
            raise ConfigError.of(f"'{word[:128]}' is not KIND/NAME", hint="write it like dataset/imagenet")
        found = kinds_called(kind)
        if len(found) != 1:
            raise ConfigError.of(f"'{kind}' is several kinds", hint="name one of them")
        names.setdefault(found[0].name, []).append(name)
    return [Asked((KINDS[kind],), tuple(dict.fromkeys(those))) for kind, those in names.items()]


def read_files(files: Iterable[str], namespace: str | None) -> list[Object]:
    """The objects of all files, in their order, none of them of another namespace than the one that was named.

    Faults are printed line by line; then the command ends.
    """
    found: list[Object] = []
    for file in _expanded(files):
        try:
            found += read_objects(_text(file), "standard input" if file == "-" else file)
        except InvalidObjectsError as error:
            for fault in error.faults:
                printer.say(f"error: {fault}")
            for thing in (*found, *error.sound):
                printer.say(f"{kind_of(thing).prefix}/{thing.name} left alone, since others have errors")
            raise typer.Exit(int(ExitCode.CONFIG)) from None
    if not found:
        raise ConfigError.of("there are no objects in what was given", hint="give a file with YAML documents")
    for thing in found:
        _check_namespace(thing, namespace)
    return found


def namespace_of(thing: Object, namespace: str | None) -> str:
    """The namespace that an object is in; empty for kinds without."""
    if not kind_of(thing).namespaced:
        return ""
    return thing.namespace or namespace or DEFAULT_NAMESPACE


def warn_of_odd(documents: Iterable[dict[str, Any]]) -> None:
    """Names the objects that make no sense to this release, which another one may have kept: the others are fine."""
    for document in documents:
        try:
            object_of(_unsealed(document), lenient=True)
        except InvalidObjectsError as error:
            kind, metadata = KINDS[document["kind"]], document["metadata"]
            where = f" -n {metadata['namespace']}" if metadata.get("namespace") else ""
            printer.warn(
                f"{'; '.join(map(str, error.faults))}\n"
                f"hint: apply it anew, or headrace delete {kind.singular} {metadata['name']}{where}"
            )


def _unsealed(document: dict[str, Any]) -> dict[str, Any]:
    """An object that the supervisor sent. A Secret's stars become empty values."""
    if document.get("kind") != "Secret":
        return document
    data = document.get("data")
    return {**document, "data": dict.fromkeys(data if isinstance(data, dict) else (), "")}


def tell(outcomes: Iterable[Outcome]) -> None:
    """Writes `dataset.data.fluid.io/imagenet created` for each; ends the command when one of them failed."""
    failed = 0
    for outcome in outcomes:
        if outcome.fault is None:
            printer.data(f"{full_name(outcome.object)} {outcome.deed}")
            continue
        error = outcome.fault.as_error()
        printer.say(complaint(error))
        failed = failed or int(exit_code(error))
    if failed:
        raise typer.Exit(failed)


def full_name(named: Named) -> str:
    """`dataset.data.fluid.io/imagenet`."""
    return f"{KINDS[named.kind].prefix}/{named.name}" if named.kind in KINDS else f"{named.kind}/{named.name}"


def _check_namespace(thing: Object, namespace: str | None) -> None:
    if namespace and thing.namespace and kind_of(thing).namespaced and thing.namespace != namespace:
        raise ConfigError.of(
            f"{kind_of(thing).name} {thing.name} says namespace {thing.namespace}, and the command {namespace}",
            hint=f"leave one of them out, or say --namespace {thing.namespace}",
        )


def _expanded(files: Iterable[str]) -> Iterator[str]:
    for file in files:
        path = Path(file)
        if file == "-" or not path.is_dir():
            yield file
            continue
        below = sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES)
        if not below:
            raise MissingFileError.of(f"there is no .yaml, .yml or .json file in {file}")
        yield from map(str, below)


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MissingFileError.of(f"{file} is not there") from None
    except UnicodeDecodeError:
        raise ConfigError.of(f"{file} is not text in UTF-8") from None
    except OSError as error:
        raise ConfigError.of(f"{file} cannot be read: {error.strerror}") from None
