"""`headrace ls`: the names of the snapshot, without a mount."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import options, printer
from headrace.cli.dataset_words import settings_of
from headrace.cli.targets import reach
from headrace.engine.handles import Engine
from headrace.settings.environment import Environment
from headrace.settings.sizes import format_size

if TYPE_CHECKING:
    from headrace.engine.handles import TreeEntry

_PAGE = 10_000


def run(
    target: options.Target,
    path: options.Paths = None,
    long: Annotated[bool, typer.Option("--long", "-l", help="With size and time.")] = False,
    cache: options.Cache = None,
    option: options.Option = None,
    exclude: options.Exclude = None,
    secret_file: options.SecretFile = None,
    json: options.Json = False,
) -> None:
    """List files and folders of a dataset."""
    environment = Environment.current()
    settings = settings_of(environment, option=option, exclude=exclude, cache=cache, secret_file=secret_file)
    reached = reach(target, settings, environment)
    with reached.engine as engine:
        entries = (entry for wanted in reached.paths(path) for entry in _entries(engine, wanted))
        if json:
            printer.as_json([_as_json(entry) for entry in entries])
        else:
            printer.names(_long(entry) if long else _name(entry) for entry in entries)


def _entries(engine: Engine, path: bytes) -> Iterator[TreeEntry]:
    entry = engine.stat(path)
    if entry.kind != "directory":
        yield entry
        return
    after: bytes | None = None
    while page := engine.list(path, after=after, limit=_PAGE):
        yield from page
        after = page[-1].path.rpartition(b"/")[2]


def _name(entry: TreeEntry) -> bytes:
    name = entry.path.rpartition(b"/")[2]
    return name + b"/" if entry.kind == "directory" else name


def _time(entry: TreeEntry) -> str:
    return datetime.fromtimestamp(entry.mtime_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _long(entry: TreeEntry) -> bytes:
    size = "-" if entry.kind == "directory" else format_size(entry.size)
    return f"{size:>12}  {_time(entry)}  ".encode() + _name(entry)


def _as_json(entry: TreeEntry) -> dict[str, object]:
    return {
        "path": os.fsdecode(entry.path).encode("utf-8", "replace").decode(),
        "kind": entry.kind,
        "size_bytes": entry.size,
        "modified": _time(entry),
    }
