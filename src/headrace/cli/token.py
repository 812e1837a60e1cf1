"""`headrace token`: what workers and mounts need of the token of a cluster, and no more."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from headrace.cli import printer, role_options
from headrace.cli.role_settings import settings_of_role
from headrace.control.rights import Rights, derive
from headrace.roles.specs.resolved_settings import needed_token
from headrace.settings.environment import Environment
from headrace.settings.roles import LoadSettings


class Holder(StrEnum):
    """The holder of a token."""

    READER = "reader"
    WORKER = "worker"


def run(
    holder: Annotated[
        Holder,
        typer.Option(
            "--for", metavar="reader|worker", help="A reader mounts and copies; a worker serves as well."
        ),
    ],
    token_file: role_options.TokenFile = None,
) -> None:
    """Print the token that a mount or a worker needs: it allows less than the one that it is made of."""
    environment = Environment.current()
    settings = settings_of_role(LoadSettings, None, environment, token_file=token_file)
    token = derive(needed_token(settings, environment), Rights[holder.name])
    printer.data(token.get_secret_value())
