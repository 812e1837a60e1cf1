"""`headrace sweep`: what the operator runs on each node that a dataset has left."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from headrace.errors import ConfigError
from headrace.roles.logs import start_python_log
from headrace.roles.node.sweeping import sweep

DATASET = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z]([-a-z0-9]*[a-z0-9])?")
"""`namespace/name`, as Kubernetes allows it."""


def run(
    dataset: Annotated[str, typer.Option(metavar="NAMESPACE/NAME", help="Dataset whose files go.")],
    node_folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder that driver and mounts of the node share.")
    ] = Path("/var/lib/headrace"),
    cache: Annotated[
        list[Path] | None, typer.Option(metavar="FOLDER", help="A folder in which the dataset had a cache.")
    ] = None,
) -> None:
    """Remove what a dataset left on this node: mount, states, caches. The operator calls it."""
    if not DATASET.fullmatch(dataset):
        raise ConfigError.of(f"'{dataset[:64]}' is not NAMESPACE/NAME")
    start_python_log("info")
    sweep(dataset, node_folder, cache or ())
