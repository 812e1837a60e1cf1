"""`headrace own-folders`: what runs before a role that is not root, and gives it its folders on the node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.sweep import DATASET
from headrace.errors import ConfigError
from headrace.roles.logs import start_python_log
from headrace.roles.node.own_folders import Owner, give_cache, give_state


def run(
    dataset: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="Dataset that the folders belong to.")
    ],
    uid: Annotated[int, typer.Option(min=0, help="Number of the user who gets them.")],
    gid: Annotated[int, typer.Option(min=0, help="Number of the group.")],
    state: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The role's state folder, in one that is root's.")
    ] = None,
    cache: Annotated[
        list[Path] | None, typer.Option(metavar="FOLDER", help="A folder in which the dataset has a cache.")
    ] = None,
) -> None:
    """Give a user the folders of this node that a dataset's worker needs. The operator has it called."""
    if not DATASET.fullmatch(dataset):
        raise ConfigError.of(f"'{dataset[:64]}' is not NAMESPACE/NAME")
    start_python_log("info")
    owner = Owner(uid, gid)
    if state is not None:
        give_state(state.parent, state.name, owner)
    for place in cache or ():
        give_cache(place, dataset, owner)
