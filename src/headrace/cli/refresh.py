"""`headrace refresh`: a new list of files, for a mount of this machine or for a whole cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import options, printer, role_options
from headrace.cli.dataset_words import settings_of
from headrace.cli.targets import reach
from headrace.errors import ConfigError, UnsupportedError
from headrace.settings.environment import Environment
from headrace.settings.sizes import format_size

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.control.messages import Refreshed
    from headrace.engine.status import RefreshReport


def run(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[TARGET]",
            help="A mountpoint or a path below it, the name of a mounted dataset, or an origin together with its "
            "--cache; none for a cluster.",
        ),
    ] = None,
    cluster: role_options.Cluster = None,
    cache: options.Cache = None,
    option: options.Option = None,
    exclude: options.Exclude = None,
    secret_file: options.SecretFile = None,
    token_file: role_options.TokenFile = None,
    json: options.Json = False,
) -> None:
    """Take a new snapshot of the origin's names; readers move on between opens."""
    environment = Environment.current()
    if target is None:
        _refresh_cluster(cluster, token_file, environment, json=json)
        return
    if cluster is not None:
        raise ConfigError.of("a TARGET and a --cluster are different things to refresh", hint="name one")
    dataset = settings_of(environment, option=option, exclude=exclude, cache=cache, secret_file=secret_file)
    reached = reach(target, dataset, environment)
    with reached.engine as engine:
        try:
            report = engine.refresh()
        except UnsupportedError as error:
            hint = error.hint or "for a member of a cluster: headrace refresh --cluster URL"
            raise UnsupportedError.of(error.message, hint=hint) from None
    if json:
        printer.as_json(report.model_dump(mode="json"))
    _tell(reached.name, report)


def _refresh_cluster(
    cluster: str | None, token_file: Path | None, environment: Environment, *, json: bool
) -> None:
    # Here, since a mount of one machine alone has no need of YAML, nor of an HTTP client.
    from headrace.cli.master_client import ask_master  # noqa: PLC0415
    from headrace.cli.role_settings import settings_of_role  # noqa: PLC0415
    from headrace.roles.specs.resolved_settings import needed_master, needed_token  # noqa: PLC0415
    from headrace.settings.roles import LoadSettings  # noqa: PLC0415

    settings = settings_of_role(LoadSettings, None, environment, master=cluster, token_file=token_file)
    if settings.master is None:
        raise options.MissingWords("missing argument 'TARGET'; or give a --cluster", "headrace refresh")
    master, token = (
        needed_master(settings.master),
        needed_token(settings, environment),
    )
    report = ask_master(master, token, lambda client: client.refresh())
    if json:
        printer.as_json(report.model_dump(mode="json"))
    _tell(master, report)


def _tell(name: str, report: RefreshReport | Refreshed) -> None:
    printer.say(
        f"refreshed {name}: {report.added:,} added, {report.changed:,} changed, {report.removed:,} removed; "
        f"{report.files:,} files, {format_size(report.bytes)}"
    )
