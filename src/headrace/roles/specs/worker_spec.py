"""The spec of a worker's process, from its settings."""

from __future__ import annotations

from headrace.control.rights import Rights, need
from headrace.errors import ConfigError
from headrace.roles.cluster.host_addresses import host_name
from headrace.roles.messages import WorkerSpec
from headrace.roles.specs import resolved_settings
from headrace.roles.specs.origins import resolve_origins
from headrace.roles.specs.terminal import Terminal
from headrace.settings.addresses import parse_address
from headrace.settings.cluster import ClusterConfig
from headrace.settings.engine import EngineConfig, LevelConfig, TransferConfig
from headrace.settings.environment import Environment
from headrace.settings.paths import absolute
from headrace.settings.roles import WorkerSettings


def worker_spec(settings: WorkerSettings, environment: Environment, terminal: Terminal) -> WorkerSpec:
    """The spec of the worker's process. Makes the cache folders. Raises `ConfigError` or `RefusedError`."""
    master = resolved_settings.needed_master(settings.master)
    for address in (settings.listen, settings.metrics_address):
        if address is not None:
            parse_address(address)
    resolved = resolve_origins(
        settings.origins, environment, terminal, machine_credentials=settings.machine_credentials
    )
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
        cache=_cache_levels(settings),
        # Beside our own state, which the engine's lock does not reach.
        state_directory=state / "engine",
        limits=resolved_settings.limits_of(settings.memory),
        transfer=transfer,
        eviction=settings.eviction,
        cluster=ClusterConfig(
            view={}, token=token, token_file=resolved_settings.token_file_of(settings), node=name, tls=tls
        ),
    )
    # The settings go on with what was found out: the node's name.
    told = settings.model_copy(update={"node": settings.node or host_name()})
    return WorkerSpec(settings=told, config=config, id=name, master=master, token=token, keys=resolved.keys)


def _cache_levels(settings: WorkerSettings) -> tuple[LevelConfig, ...]:
    """The cache levels with their folders made. Raises `ConfigError` for none: a worker is its cache."""
    if not settings.cache:
        raise ConfigError.of(
            "a worker needs a cache folder", hint="give --cache PATH:QUOTA, such as /ssd/headrace:80%"
        )
    return resolved_settings.prepared_levels(settings)
