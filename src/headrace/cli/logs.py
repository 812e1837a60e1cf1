"""`headrace logs`: what the processes of a dataset wrote."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import Annotated

import typer

from headrace.api.kinds import kinds_called
from headrace.cli import backend, printer
from headrace.errors import MissingFileError
from headrace.local.client import LocalClient
from headrace.local.messages import RoleLine


def run(
    dataset: Annotated[
        str,
        typer.Argument(metavar="DATASET", help="`imagenet`, `dataset/imagenet`, or `dataprocess/NAME`."),
    ],
    namespace: backend.Namespace = None,
    role: Annotated[
        str | None, typer.Option(metavar="ROLE", help="master, worker, mount, or the id of one process.")
    ] = None,
    tail: Annotated[int | None, typer.Option(metavar="COUNT", min=0, help="Only so many last lines.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written.")] = False,
) -> None:
    """Show the logs of a dataset's master, workers and mounts, or of an operation's process."""
    client, where = backend.client(), namespace or backend.DEFAULT_NAMESPACE
    kind, name = _meant(dataset)
    roles = client.status().roles
    if kind != "dataset":
        _copy(client, _of_operation(kind, name, where, roles), tail, follow, prefix="")
        return
    found = [each for each in roles if (each.namespace, each.dataset) == (where, name) and each.role != "job"]
    wanted = [each for each in found if role is None or role in (each.role, each.id)]
    if not wanted:
        known = ", ".join(each.id for each in found)
        raise MissingFileError.of(
            f"dataset {name} in namespace {where} has no process{f' {role}' if role else ''}",
            hint=f"known are {known}" if known else f"headrace describe dataset {name}",
        )
    if len(wanted) == 1:
        _copy(client, wanted[0], tail, follow, prefix="")
        return
    _copy_all(client, wanted, tail, follow)


def _meant(word: str) -> tuple[str, str]:
    """Kind, in the singular, and name."""
    kind, slash, name = word.rpartition("/")
    if not slash:
        return "dataset", word
    found = kinds_called(kind)
    return found[0].singular if len(found) == 1 else kind, name


def _of_operation(kind: str, name: str, namespace: str, roles: Iterable[RoleLine]) -> RoleLine:
    wanted = f"operation.{namespace}.{kind}.{name}"
    for each in roles:
        if each.id == wanted:
            return each
    raise MissingFileError.of(
        f"{kind} {name} in namespace {namespace} has no process", hint=f"headrace describe {kind} {name}"
    )


def _copy_all(client: LocalClient, roles: list[RoleLine], tail: int | None, follow: bool) -> None:
    """One after the other; those that are followed at the same time."""
    threads = []
    for each in roles:
        thread = threading.Thread(
            target=_copy, args=(client, each, tail, follow), kwargs={"prefix": f"[{each.id}] "}, daemon=True
        )
        thread.start()
        if follow:
            threads.append(thread)
        else:
            thread.join()
    for thread in threads:
        thread.join()


def _copy(client: LocalClient, role: RoleLine, tail: int | None, follow: bool, *, prefix: str) -> None:
    for line in client.logs(role.id, tail=tail, follow=follow):
        sys.stdout.write(f"{prefix}{line.decode('utf-8', 'replace')}")
        if follow:
            printer.flush()
