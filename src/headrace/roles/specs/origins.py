"""From the `origins` of a role's settings to typed origins: the same words as those of `headrace mount`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.engine.key_sources import sourced
from headrace.errors import ConfigError
from headrace.roles.specs.terminal import Terminal
from headrace.settings.environment import Environment
from headrace.settings.key_sources import KeySource
from headrace.settings.origins import OriginMount
from headrace.settings.roles import OriginSettings


@dataclass(frozen=True)
class ResolvedOrigins:
    """Origins with their credentials, and where these come from when they are read again."""

    mounts: tuple[OriginMount, ...]
    keys: tuple[KeySource, ...]


def resolve_origins(
    origins: Sequence[OriginSettings],
    environment: Environment,
    terminal: Terminal,
    *,
    machine_credentials: bool = True,
) -> ResolvedOrigins:
    """The origins of a role's settings. Warns of credentials in clear. Raises `ConfigError`."""
    if not origins:
        raise ConfigError.of(
            "no origin given", hint="add `origins:` to the configuration file, or name one: NAME=URI"
        )
    mounts: list[OriginMount] = []
    keys: list[KeySource] = []
    for each in origins:
        found = sourced(
            [each.origin],
            each.options,
            each.secret_file,
            environment,
            terminal.ask,
            machine_credentials=machine_credentials,
            exclude=each.exclude or (),
        )
        for warning in found.warnings:
            terminal.warn(warning)
        keys += found.keys
        (mount,) = found.origins.mounts
        exclude = mount.exclude.model_copy(update={"below": each.exclude_below or ""})
        mounts.append(mount.model_copy(update={"path": each.path.strip("/"), "exclude": exclude}))
    _check_paths([mount.path for mount in mounts])
    return ResolvedOrigins(tuple(mounts), tuple(keys))


def _check_paths(paths: Sequence[str]) -> None:
    if len(paths) > 1 and "" in paths:
        raise ConfigError.of("several origins need places", hint="give each a `path`, such as train")
    doubled = sorted({path for path in paths if paths.count(path) > 1})
    if doubled:
        raise ConfigError.of(f"two origins are at '{doubled[0]}'", hint="give each its own `path`")
