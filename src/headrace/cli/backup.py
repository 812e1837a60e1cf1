"""`headrace backup` and `headrace restore`: what the operator runs in pods for a DataBackup, and before a master."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Annotated

import typer

from headrace.api.identities import User
from headrace.control.client import ControlClient
from headrace.control.cluster_token import read_token
from headrace.control.messages import SnapshotNote
from headrace.errors import ConfigError
from headrace.operations import backups
from headrace.roles.specs.resolved_settings import needed_master

_DATASET = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z]([-a-z0-9]*[a-z0-9])?")
_OWNER = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")

_Dataset = Annotated[str, typer.Option(metavar="NAMESPACE/NAME", help="Dataset of the list of files.")]
_Folder = Annotated[Path, typer.Option(metavar="FOLDER", help="Location of the backup.")]


def run(
    dataset: _Dataset,
    folder: _Folder,
    cluster: Annotated[str, typer.Option(metavar="URL", help="The master of the dataset.")],
    token_file: Annotated[Path, typer.Option(metavar="FILE", help="The token of the cluster.")],
    owner: Annotated[
        str | None, typer.Option(metavar="UID:GID", help="Owner of the files of the backup.")
    ] = None,
    last_word_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Gets what was kept, as JSON.")
    ] = None,
) -> None:
    """Keep the list of files of a dataset in a folder. The operator calls it for a DataBackup."""
    _check(dataset)
    kept = asyncio.run(_back_up(dataset, folder, needed_master(cluster), token_file, _user(owner)))
    word = json.dumps({"kept_bytes": kept.file_bytes, "version": kept.version})
    if last_word_file is not None:
        last_word_file.write_text(word)
    typer.echo(word)


def restore(
    dataset: _Dataset,
    folder: _Folder,
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the master's lists.")],
) -> None:
    """Put a kept list of files where a master that begins looks for its own. The operator calls it."""
    _check(dataset)
    backups.restore(dataset, f"local://{folder.absolute()}", to)


async def _back_up(title: str, folder: Path, master: str, token: Path, owner: User | None) -> SnapshotNote:
    async with ControlClient(master, read_token(token)) as client:
        return await backups.back_up(client, title, f"local://{folder.absolute()}", owner)


def _check(dataset: str) -> None:
    if not _DATASET.fullmatch(dataset):
        raise ConfigError.of(f"'{dataset[:64]}' is not NAMESPACE/NAME")


def _user(owner: str | None) -> User | None:
    if owner is None:
        return None
    if not _OWNER.fullmatch(owner):
        raise ConfigError.of(f"'{owner[:64]}' is not UID:GID")
    uid, _, gid = owner.partition(":")
    return User(uid=int(uid), gid=int(gid), user="", group="")
