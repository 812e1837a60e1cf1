"""From what a person said about a dataset to the configuration of its engine. Makes cache folders; opens nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from headrace.engine import caches, secrets
from headrace.engine.key_sources import sourced
from headrace.engine.uris import with_scheme
from headrace.errors import ConfigError
from headrace.settings.dataset import DatasetSettings
from headrace.settings.engine import (
    EngineConfig,
    LevelConfig,
    Limits,
    TransferConfig,
    listing_bytes_of,
    memory_bytes_of,
)
from headrace.settings.environment import Environment
from headrace.settings.key_sources import KeySource
from headrace.settings.model import Model
from headrace.settings.origins import LocalOrigin, OriginMount
from headrace.settings.paths import absolute
from headrace.settings.sizes import parse_size
from headrace.settings.toml_files import explain


@dataclass(frozen=True)
class Configured:
    """An engine's configuration, and what the person should be warned of."""

    config: EngineConfig
    warnings: list[str] = field(default_factory=list)
    keys: tuple[KeySource, ...] = ()
    """Where keys of its origins come anew."""


def configure(
    origins: Sequence[str],
    settings: DatasetSettings,
    environment: Environment,
    *,
    ask: secrets.Ask | None = None,
) -> Configured:
    """The checked configuration of one dataset. Raises `ConfigError` or `RefusedError`."""
    found = sourced(
        origins, settings.options, settings.secret_file, environment, ask, exclude=settings.exclude
    )
    mounts = found.origins.mounts
    name = settings.name or found.origins.name
    levels = _levels(name, settings, environment)
    state = settings.state_directory or _state_directory(name, mounts, levels, environment)
    for mount in mounts:
        _check_local(mount)
    for level in levels:
        for folder in level.folders:
            caches.prepare_folder(folder)
    config = EngineConfig(
        name=name,
        origins=mounts,
        cache=levels,
        state_directory=absolute(state),
        limits=_limits(settings),
        transfer=_transfer(settings),
        eviction=settings.eviction,
        snapshot=settings.snapshot,
    )
    return Configured(config, found.warnings, found.keys)


def _levels(name: str, settings: DatasetSettings, environment: Environment) -> tuple[LevelConfig, ...]:
    words = settings.cache
    if words is None:
        words = (caches.default_cache(environment.cache_directory / name),)
    try:
        return caches.cache_levels(words, high=settings.high, low=settings.low)
    except ValidationError as error:
        raise explain(error, LevelConfig) from None


def _limits(settings: DatasetSettings) -> Limits:
    given = {
        "memory_bytes": None if settings.memory is None else memory_bytes_of(settings.memory),
        "descriptors": settings.descriptors,
        "inodes": settings.inodes,
        "listing_bytes": None if settings.list_memory is None else listing_bytes_of(settings.list_memory),
    }
    try:
        return Limits(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise explain(error, Limits) from None


def _transfer(settings: DatasetSettings) -> TransferConfig:
    try:
        return TransferConfig(
            block_size_bytes=parse_size(settings.block_size, setting="block_size"),
            readahead_bytes=parse_size(settings.read_ahead, setting="read_ahead"),
            concurrency=settings.concurrency,
            timeout_s=settings.timeout_s,
            retries=settings.retries,
            threads=settings.threads,
        )
    except ValidationError as error:
        names = {"block_size_bytes": "block_size", "readahead_bytes": "read_ahead"}
        raise _explained(error, names, TransferConfig) from None


def _explained(error: ValidationError, names: dict[str, str], model: type[Model]) -> ConfigError:
    explained = explain(error, model)
    for field_name, setting in names.items():
        explained.message = explained.message.replace(f"'{field_name}'", f"'{setting}'")
    return explained


def _state_directory(
    name: str, mounts: Sequence[OriginMount], levels: Sequence[LevelConfig], environment: Environment
) -> Path:
    """One folder for each pair of origins and cache: the same words find the same state again."""
    identity = hashlib.blake2b(digest_size=6)
    for mount in mounts:
        identity.update(f"{mount.path}={_identity(mount)}\0".encode())
    for level in levels:
        for folder in level.folders:
            identity.update(f"{folder.path}\0".encode())
    return environment.state_directory / f"{name[:40]}-{identity.hexdigest()}"


def _identity(mount: OriginMount) -> str:
    """What makes an origin this one and no other; never a credential."""
    origin = mount.origin.model_dump()
    origin["endpoint"] = with_scheme(origin.get("endpoint"))
    parts = (origin.get(key, "") for key in ("kind", "endpoint", "bucket", "prefix", "directory"))
    return " ".join(str(part or "") for part in parts)


def _check_local(mount: OriginMount) -> None:
    """A folder that is not there is found now, and in words, before a process is started for it."""
    if isinstance(mount.origin, LocalOrigin) and not Path(mount.origin.directory).is_dir():
        raise ConfigError.of(
            f"{mount.origin.directory} is not a folder", hint="check the path of the origin on this machine"
        )
