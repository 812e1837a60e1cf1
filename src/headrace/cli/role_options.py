"""The options that the verbs of several roles share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.settings.log_format import LogFormat

Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        readable=False,
        help="The role's configuration: YAML, or a .properties file of JindoFS.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="URL", help="The master of the cluster, http://HOST:8700; or HEADRACE_MASTER."
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", readable=False, help="The token of the cluster; or HEADRACE_TOKEN_FILE."),
]
LogFormatOption = Annotated[
    LogFormat | None,
    typer.Option("--log-format", metavar="|".join(LogFormat), help="Format of the log."),
]
