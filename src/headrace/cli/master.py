"""`headrace master`: checks what can be checked, and becomes the master's process."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic import SecretStr

from headrace.cli import options, printer, roles
from headrace.control.rights import Rights, need
from headrace.control.roster import policy_of
from headrace.control.tls import server_context
from headrace.control.tokens import create_token
from headrace.errors import ConfigError
from headrace.roles.datasets import resolve_origins
from headrace.roles.host_addresses import host_name
from headrace.roles.launch import become_role
from headrace.roles.messages import MasterOrders
from headrace.settings.addresses import parse_address
from headrace.settings.cluster import ClusterConfig
from headrace.settings.engine import EngineConfig, SnapshotPolicy, TransferConfig
from headrace.settings.environment import Environment
from headrace.settings.origins import OriginMount
from headrace.settings.paths import absolute
from headrace.settings.roles import HttpsSettings, MasterSettings

_NAMED = re.compile(r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)=(?P<address>.+)", re.DOTALL)


def run(
    origin: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ORIGIN]...", help="Where the data lives; NAME=ORIGIN for each of several."),
    ] = None,
    config: roles.Config = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the cluster.")] = None,
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where it answers.")] = None,
    state_directory: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where its state, the token and the snapshots are kept."),
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(metavar="N", help="How many workers own each block.")
    ] = None,
    refresh_interval: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Take a new snapshot this often; 0: only when asked."),
    ] = None,
    web: Annotated[bool | None, typer.Option("--web/--no-web", help="Serve the web page at /.")] = None,
    secret_file: options.SecretFile = None,
    token_file: roles.TokenFile = None,
    log_format: roles.LogFormatOption = None,
) -> None:
    """Run the master of a cluster: members, snapshots, loads, status page."""
    environment = Environment.current()
    settings = roles.settings_of(
        MasterSettings,
        config,
        environment,
        cluster=name,
        listen=listen,
        state_directory=state_directory,
        replicas=replicas,
        refresh_interval_s=refresh_interval,
        web=web,
        token_file=token_file,
        log_format=log_format,
        origins=origins_of(origin, secret_file),
    )
    parse_address(settings.listen)
    mounts, warnings = resolve_origins(
        settings.origins, environment, options.ask if sys.stdin.isatty() else None
    )
    for warning in warnings:
        printer.warn(warning)
    orders = _orders(settings, mounts, environment)
    become_role("master", settings.cluster, orders, environment)


def _orders(
    settings: MasterSettings, mounts: tuple[OriginMount, ...], environment: Environment
) -> MasterOrders:
    state = absolute(settings.state_directory or environment.state_directory / f"master-{settings.cluster}")
    rules = policy_of(
        replicas=settings.replicas,
        heartbeat_s=settings.heartbeat_interval_s,
        dead_after_s=settings.dead_after_s,
    )
    block = roles.block_size_bytes(settings.block_size)
    token, tls = _token(settings, state, environment), roles.tls_of(settings.tls)
    need(token, Rights.ADMINISTRATOR)
    nobody = {"epoch": 0, "replicas": rules.replicas, "members": []}
    config = EngineConfig(
        name=settings.cluster,
        origins=mounts,
        # Beside our own state, which the engine's lock does not reach.
        state_directory=state / "engine",
        transfer=TransferConfig(block_size_bytes=block, concurrency=settings.concurrency),
        snapshot=SnapshotPolicy.REFRESH if settings.snapshot_at_start else SnapshotPolicy.KEEP,
        cluster=ClusterConfig(view=nobody, token=token, node=host_name(), tls=tls),
    )
    return MasterOrders(settings=_checked(settings), config=config, state_directory=state, token=token)


def _checked(settings: MasterSettings) -> MasterSettings:
    """The settings with absolute paths for HTTPS. Raises `ConfigError` for a certificate that cannot be used."""
    if settings.https is None:
        return settings
    https = HttpsSettings(certificate=absolute(settings.https.certificate), key=absolute(settings.https.key))
    server_context(https.certificate, https.key)
    return settings.model_copy(update={"https": https})


def origins_of(origins: list[str] | None, secret_file: Path | None) -> list[dict[str, object]] | None:
    """`NAME=URI` words as entries of `origins`; `None` when there are none."""
    if not origins:
        if secret_file is not None:
            raise ConfigError.of(
                "--secret-file is for an ORIGIN of the command line", hint="name it in the file"
            )
        return None
    found: list[dict[str, object]] = []
    for word in origins:
        match = _NAMED.fullmatch(word)
        path, address = (match["name"], match["address"]) if match else ("", word)
        found.append({"path": path, "origin": address, "secret_file": secret_file})
    return found


def _token(settings: MasterSettings, state: Path, environment: Environment) -> SecretStr:
    token = roles.token_of(settings, environment) if settings.token_file is None else None
    if token is not None:
        return token
    path = absolute(settings.token_file) if settings.token_file else state / "token"
    is_new = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigError.of(f"cannot use the state folder {path.parent}: {error.strerror}") from None
    created = (
        create_token(path)
        if is_new
        else roles.needed_token(settings.model_copy(update={"token_file": path}), environment)
    )
    if is_new:
        printer.say(
            f"the token of cluster {settings.cluster} is in {path}; "
            "`headrace token` makes those of workers and mounts of it"
        )
    return created
