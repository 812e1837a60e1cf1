"""`headrace metrics`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import printer
from headrace.engine.handles import Engine
from headrace.engine.registry import Registry
from headrace.settings.environment import Environment


def run(target: Annotated[str, typer.Argument(metavar="MOUNTPOINT")]) -> None:
    """Show the metrics of a mount in the format that Prometheus reads."""
    entry = Registry(Environment.current().runtime_directory).get(target)
    with Engine.attach(Path(entry.state_directory)) as engine:
        printer.data(engine.metrics().rstrip("\n"))
