"""From the `origins` of a role's settings to typed origins: the same words as those of `headrace mount`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from headrace.engine import secrets
from headrace.engine.origin_parsing import parse_origins
from headrace.errors import ConfigError
from headrace.settings.environment import Environment
from headrace.settings.origins import OriginMount
from headrace.settings.roles import OriginSettings


def resolve_origins(
    origins: Sequence[OriginSettings], environment: Environment, ask: secrets.Ask | None = None
) -> tuple[tuple[OriginMount, ...], list[str]]:
    """The origins with their credentials, and what the person should be warned of. Raises `ConfigError`."""
    if not origins:
        raise ConfigError.of(
            "no origin given", hint="add `origins:` to the configuration file, or name one: NAME=URI"
        )
    warnings: list[str] = []
    mounts: list[OriginMount] = []
    for each in origins:
        resolved = secrets.resolve(each.options, each.secret_file, environment, ask)
        warnings += resolved.warnings
        (mount,) = parse_origins([each.origin], resolved.options, environment).mounts
        mounts.append(mount.model_copy(update={"path": each.path.strip("/")}))
    _check_paths([mount.path for mount in mounts])
    return tuple(mounts), warnings


def fingerprint(mounts: Sequence[OriginMount]) -> str:
    """Equal for equal origins at equal places, whatever the credentials."""
    digest = hashlib.sha256()
    for mount in sorted(mounts, key=lambda mount: mount.path):
        origin = mount.origin.model_dump()
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
