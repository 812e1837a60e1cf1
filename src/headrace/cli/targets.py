"""From the TARGET of a command to an engine: one that runs already, or one of our own for an origin and its cache."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.cli import options, printer
from headrace.engine.configure import configure
from headrace.engine.handles import Engine
from headrace.engine.registry import Registry
from headrace.engine.registry_entry import Entry
from headrace.errors import ConfigError, MissingFileError
from headrace.settings.dataset import DatasetSettings
from headrace.settings.environment import Environment


@dataclass(frozen=True)
class Reached:
    """An engine, and where the TARGET points inside its tree."""

    engine: Engine
    name: str
    inside: bytes
    mountpoint: str | None

    def paths(self, given: Sequence[str] | None) -> list[bytes]:
        """The paths that the command is about, from the dataset's root: `given`, or what TARGET itself points at.

        The empty path is the whole dataset.
        """
        if not given:
            return [self.inside]
        return [self._path(text) for text in given]

    def _path(self, text: str) -> bytes:
        path = os.fsencode(text)
        if self.mountpoint and Path(text).is_absolute() and Path(text).is_relative_to(self.mountpoint):
            return relative_to_mount(text, self.mountpoint)
        return b"/".join(part for part in (self.inside, path.strip(b"/")) if part)


def reach(target: str, settings: DatasetSettings, environment: Environment) -> Reached:
    """The engine behind TARGET. Raises `MissingFileError` when nothing is mounted there and it is no origin."""
    entry = Registry(environment.runtime_directory).find(target)
    if entry is not None:
        return _attached(target, entry)
    is_path = "://" not in target and "=" not in target
    if is_path and settings.cache is None:
        raise MissingFileError.of(
            f"nothing is mounted at {target}",
            hint="see `headrace status`; for an origin that is not mounted, give its --cache",
        )
    if settings.cache is None and sys.stderr.isatty():
        printer.say("no --cache given: using the default cache of this origin")
    configured = configure([target], settings, environment, ask=options.ask if sys.stdin.isatty() else None)
    for warning in configured.warnings:
        printer.warn(warning)
    return Reached(Engine.open(configured.config, configured.keys), configured.config.name, b"", None)


def relative_to_mount(path: str, mountpoint: str) -> bytes:
    """The part of `path` below the mountpoint; `..` may not lead out of it."""
    inside = os.path.relpath(Path(path).absolute(), mountpoint)
    if inside.split("/")[0] == "..":
        raise ConfigError.of(f"{path} is not below {mountpoint}")
    return b"" if inside == "." else os.fsencode(inside)


def _attached(target: str, entry: Entry) -> Reached:
    engine = Engine.attach(Path(entry.state_directory))
    is_name = target == entry.name and not Path(target).absolute().is_relative_to(entry.mountpoint)
    inside = b"" if is_name else relative_to_mount(target, entry.mountpoint)
    return Reached(engine, entry.name, inside, entry.mountpoint)
