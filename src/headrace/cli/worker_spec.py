"""The spec of a worker's process, from its settings."""

from __future__ import annotations

from headrace.cli import printer, resolved_settings
from headrace.control.rights import Rights, need
from headrace.engine import caches
from headrace.engine.secrets import Ask
from headrace.errors import ConfigError
from headrace.roles.datasets import resolve_origins
from headrace.roles.host_addresses import host_name
from headrace.roles.messages import WorkerSpec
from headrace.settings.addresses import parse_address
from headrace.settings.cluster import ClusterConfig
from headrace.settings.engine import EngineConfig, LevelConfig, Limits, TransferConfig, memory_bytes_of
from headrace.settings.environment import Environment
from headrace.settings.paths import absolute
from headrace.settings.roles import WorkerSettings


def worker_spec(settings: WorkerSettings, environment: Environment, ask: Ask | None) -> WorkerSpec:
    """The spec of the worker's process. Makes the cache folders. Raises `ConfigError` or `RefusedError`.

    `ask` is asked for a credential that the person at the terminal is to type.
    """
    master = resolved_settings.needed_master(settings.master)
    for address in (settings.listen, settings.metrics_address):
        if address is not None:
            parse_address(address)
    resolved = resolve_origins(
        settings.origins, environment, ask, machine_credentials=settings.machine_credentials
    )
    for warning in resolved.warnings:
        printer.warn(warning)
    name = settings.id or host_name()
    state = absolute(settings.state_directory or environment.state_directory / f"worker-{name}")
    token, tls = resolved_settings.needed_token(settings, environment), resolved_settings.tls_of(settings.tls)
    need(token, Rights.WORKER)
    transfer = TransferConfig(
        concurrency=settings.concurrency,
        timeout_s=settings.timeout_s,
        retries=settings.retries,
        threads=settings.threads,
    )
    config = EngineConfig(
        name=name,
        origins=resolved.mounts,
        cache=cache_levels(settings),
        # Beside our own state, which the engine's lock does not reach.
        state_directory=state / "engine",
        limits=limits_of(settings.memory),
        transfer=transfer,
        eviction=settings.eviction,
        cluster=ClusterConfig(
            view={}, token=token, token_file=resolved_settings.token_file_of(settings), node=name, tls=tls
        ),
    )
    # The settings go on with what was found out: the node's name.
    told = settings.model_copy(update={"node": settings.node or host_name()})
    return WorkerSpec(settings=told, config=config, id=name, master=master, token=token, keys=resolved.keys)


def cache_levels(settings: WorkerSettings) -> tuple[LevelConfig, ...]:
    """The cache levels with their folders made. Raises `ConfigError` for none: a worker is its cache."""
    if not settings.cache or tuple(settings.cache) == caches.NO_CACHE:
        raise ConfigError.of(
            "a worker needs a cache folder", hint="give --cache PATH:QUOTA, such as /ssd/headrace:80%"
        )
    return resolved_settings.prepared_levels(settings)


def limits_of(memory: str | None) -> Limits:
    """The limits of a process with so much memory, or with what is usual here. Raises `ConfigError`."""
    return Limits() if memory is None else Limits(memory_bytes=memory_bytes_of(memory))
