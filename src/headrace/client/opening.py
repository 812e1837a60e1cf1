"""From what a caller of the SDK says to an engine: an origin with its cache, or a mount that runs already."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.engine.configure import configure
from headrace.engine.handles import Engine
from headrace.engine.registry import Registry
from headrace.engine.registry_entry import Entry
from headrace.errors import ConfigError, MissingFileError
from headrace.settings.environment import Environment
from headrace.settings.toml_files import dataset_settings, read_file


@dataclass(frozen=True)
class Opened:
    """An engine, its dataset's name, the folder that was asked for inside it, and its mountpoint if it has one."""

    engine: Engine
    name: str
    inside: str
    mountpoint: str | None


def open_origin(origin: str | Sequence[str], cache: str | Sequence[str] | None, **settings: Any) -> Opened:
    """An engine for the origin(s): the owner of the cache, or attached to the process that owns it."""
    environment = Environment.current()
    words = [origin] if isinstance(origin, str) else list(origin)
    levels = (cache,) if isinstance(cache, str) else cache
    given = {**settings, "cache": tuple(levels) if levels is not None else None}
    chosen = dataset_settings(read_file(environment)["dataset"], **given)
    configured = configure(words, chosen, environment)
    return Opened(Engine.open(configured.config, configured.keys), configured.config.name, "", None)


def open_mount(target: str) -> Opened:
    """An attachment to the mount at (or around) the path `target`, or to the mounted dataset of that name."""
    entry = Registry(Environment.current().runtime_directory).get(target)
    return Opened(
        Engine.attach(Path(entry.state_directory), waits=True),
        entry.name,
        _inside(target, entry),
        entry.mountpoint,
    )


def open_any(
    origin: str | os.PathLike[str] | Sequence[str],
    *,
    cache: str | Sequence[str] | None,
    options: Mapping[str, str] | None,
    **settings: Any,
) -> Opened:
    """A path below a mount, or the name of a mounted dataset, is attached to; everything else is an origin."""
    word = os.fspath(origin) if isinstance(origin, (str, os.PathLike)) else None
    if word is not None and "://" not in word and cache is None:
        entry = Registry(Environment.current().runtime_directory).find(word)
        if entry is not None:
            _refuse_settings(word, options, settings)
            return open_mount(word)
        if not word.startswith(("/", ".", "~")):
            raise MissingFileError.of(
                f"no dataset named '{word}' is mounted here",
                hint="see `headrace status`; an origin is written s3://bucket/prefix or /path",
            )
    return open_origin(
        word if word is not None else _words(origin), cache, options=dict(options or {}), **settings
    )


def _words(origin: Any) -> list[str]:
    return [str(word) for word in origin]


def _refuse_settings(target: str, options: Mapping[str, str] | None, settings: Mapping[str, Any]) -> None:
    given = sorted(key for key, value in settings.items() if value is not None)
    if options or given:
        raise ConfigError.of(
            f"{target} is mounted already: its settings ({', '.join(given) or 'options'}) are those of its mount",
            hint="leave them out, or name the origin itself",
        )


def _inside(target: str, entry: Entry) -> str:
    path = Path(target).absolute()
    if not path.is_relative_to(entry.mountpoint):
        return ""
    inside = path.relative_to(entry.mountpoint).as_posix()
    return "" if inside == "." else inside
