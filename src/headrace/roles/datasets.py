"""From the `origins` of a role's settings to typed origins: the same words as those of `headrace mount`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.engine import secrets
from headrace.engine.key_sources import sourced
from headrace.engine.uris import with_scheme
from headrace.errors import ConfigError
from headrace.settings.environment import Environment
from headrace.settings.key_sources import KeySource
from headrace.settings.origins import OriginMount
from headrace.settings.roles import OriginSettings


@dataclass(frozen=True)
class ResolvedOrigins:
    """Origins with their credentials, where these come anew, and what the person should be warned of."""

    mounts: tuple[OriginMount, ...]
    keys: tuple[KeySource, ...]
    warnings: list[str]


def resolve_origins(
    origins: Sequence[OriginSettings],
    environment: Environment,
    ask: secrets.Ask | None = None,
    *,
    machine_credentials: bool = True,
) -> ResolvedOrigins:
    """The origins of a role's settings. Raises `ConfigError`."""
    if not origins:
        raise ConfigError.of(
            "no origin given", hint="add `origins:` to the configuration file, or name one: NAME=URI"
        )
    warnings: list[str] = []
    mounts: list[OriginMount] = []
    keys: list[KeySource] = []
    for each in origins:
        found = sourced(
            [each.origin],
            each.options,
            each.secret_file,
            environment,
            ask,
            machine_credentials=machine_credentials,
            exclude=each.exclude or (),
        )
        warnings += found.warnings
        keys += found.keys
        (mount,) = found.origins.mounts
        exclude = mount.exclude.model_copy(update={"below": each.exclude_below or ""})
        mounts.append(mount.model_copy(update={"path": each.path.strip("/"), "exclude": exclude}))
    _check_paths([mount.path for mount in mounts])
    return ResolvedOrigins(tuple(mounts), tuple(keys), warnings)


def fingerprint(mounts: Sequence[OriginMount]) -> str:
    """Equal for equal origins at equal places, whatever the credentials."""
    digest = hashlib.sha256()
    for mount in sorted(mounts, key=lambda mount: mount.path):
        origin = mount.origin.model_dump()
        origin["endpoint"] = with_scheme(origin.get("endpoint"))
        parts = [mount.path, *(str(origin.get(key) or "") for key in _IDENTITY)]
        digest.update("".join(f"{len(part)}:{part}" for part in parts).encode())
    return digest.hexdigest()[:32]


_IDENTITY = ("kind", "endpoint", "bucket", "prefix", "directory")


def _check_paths(paths: Sequence[str]) -> None:
    if len(paths) > 1 and "" in paths:
        raise ConfigError.of("several origins need places", hint="give each a `path`, such as train")
    doubled = sorted({path for path in paths if paths.count(path) > 1})
    if doubled:
        raise ConfigError.of(f"two origins are at '{doubled[0]}'", hint="give each its own `path`")
