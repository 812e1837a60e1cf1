"""The parts that the specs of several roles share: token, master, TLS, block size, cache levels."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr, ValidationError

from headrace.control.cluster_token import check_token, read_token
from headrace.engine import caches
from headrace.errors import ConfigError
from headrace.settings.addresses import parse_master_url
from headrace.settings.cluster import TlsConfig
from headrace.settings.engine import LevelConfig, Limits, TransferConfig, memory_bytes_of
from headrace.settings.environment import TOKEN_VARIABLE, Environment
from headrace.settings.paths import absolute
from headrace.settings.roles import MemberSettings, RoleSettings, TlsSettings, WorkerSettings
from headrace.settings.sizes import parse_size
from headrace.settings.toml_files import explain


def token_of(settings: RoleSettings, environment: Environment) -> SecretStr | None:
    """The token from the settings' file, or from the environment; `None` when neither is given."""
    if settings.token_file is not None:
        return read_token(absolute(settings.token_file))
    if text := environment.get(TOKEN_VARIABLE):
        return check_token(SecretStr(text.strip()), TOKEN_VARIABLE)
    return None


def token_file_of(settings: RoleSettings) -> Path | None:
    """The file that the token comes from, which is read again when it changes."""
    return absolute(settings.token_file) if settings.token_file is not None else None


def needed_token(settings: RoleSettings, environment: Environment) -> SecretStr:
    """The same; raises `ConfigError` when there is none."""
    token = token_of(settings, environment)
    if token is None:
        raise ConfigError.of(
            "the token of the cluster is missing",
            hint="copy the file `token` of the master's state folder, and give --token-file or HEADRACE_TOKEN_FILE",
        )
    return token


def needed_master(master: str | None) -> str:
    """The master's URL; raises `ConfigError` when none is given."""
    if master is None:
        raise ConfigError.of(
            "the master of the cluster is not named",
            hint="give --cluster http://HOST:8700, or HEADRACE_MASTER",
        )
    return parse_master_url(master)


def block_size_bytes(text: str) -> int:
    """The bytes of a block; raises `ConfigError` for what is no size of one."""
    try:
        return TransferConfig(block_size_bytes=parse_size(text, setting="block_size")).block_size_bytes
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError.of(f"block_size '{text}': a block is a power of two from 64Ki to 64Mi") from None


def tls_of(settings: TlsSettings | None) -> TlsConfig | None:
    """The PEM files; raises `ConfigError` for one that is not there."""
    if settings is None:
        return None
    files = {
        name: absolute(path)
        for name in ("certificate", "key", "authority", "client_authority")
        if (path := getattr(settings, name))
    }
    for name, path in files.items():
        if not path.is_file():
            raise ConfigError.of(f"tls: the {name} {path} is not there")
    return TlsConfig(**files)


def prepared_levels(settings: WorkerSettings | MemberSettings) -> tuple[LevelConfig, ...]:
    """The cache levels that were asked for, with their folders made. Raises `ConfigError` for one that cannot be."""
    try:
        levels = caches.cache_levels(settings.cache, high=settings.high, low=settings.low)
    except ValidationError as error:
        raise explain(error, LevelConfig) from None
    for folder in (each for level in levels for each in level.folders):
        caches.make_folder(folder)
    if isinstance(settings, WorkerSettings) and settings.fit_cache:
        levels = caches.fitted(levels)
    for folder in (each for level in levels for each in level.folders):
        caches.check_room(folder)
    return levels


def limits_of(memory: str | None) -> Limits:
    """The limits of a process with so much memory, or with what is usual here. Raises `ConfigError`."""
    return Limits() if memory is None else Limits(memory_bytes=memory_bytes_of(memory))
