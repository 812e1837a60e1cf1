"""`headrace logs`: what the processes of a dataset wrote."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import Annotated, get_args

import typer

from headrace.api.kinds import Operation, kinds_called
from headrace.api.object_selectors import parse_selector
from headrace.cli import backend, printer
from headrace.cli.undeclared import process_labels, process_name
from headrace.errors import ConfigError, MissingFileError
from headrace.local.protocol.client import LocalClient
from headrace.local.protocol.messages import RoleLine


def run(
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET",
            help="`imagenet`, `dataset/imagenet`, `dataprocess/NAME`, or a process: `imagenet-worker-0`.",
        ),
    ] = None,
    namespace: backend.Namespace = None,
    labels: Annotated[
        str | None,
        typer.Option(
            "--selector",
            "-l",
            metavar="LABELS",
            help="By labels of the dataset, or by dataset, role and node: role=worker.",
        ),
    ] = None,
    role: Annotated[
        str | None, typer.Option(metavar="ROLE", help="master, worker, mount, or the id of one process.")
    ] = None,
    tail: Annotated[int | None, typer.Option(metavar="COUNT", min=0, help="Only so many last lines.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written.")] = False,
) -> None:
    """Show the logs of a dataset's master, workers and mounts, or of an operation's process."""
    client, where = backend.client(), namespace or backend.DEFAULT_NAMESPACE
    if dataset and labels:
        raise ConfigError.of("a dataset is named, or selected, not both", hint="leave the name or -l out")
    kind, name = _meant(dataset or "")
    roles = list(client.status().roles)
    if kind != "dataset":
        _copy(client, _of_operation(kind, name, where, roles), tail, follow, prefix="")
        return
    # One that never started has no log.
    roles = [each for each in roles if each.namespace == where and each.since and each.role != "job"]
    found = _selected(client, where, roles, labels) if labels else _named(roles, name)
    wanted = [each for each in found if role is None or role in (each.role, each.id)]
    if not wanted:
        what = f"selector {labels}" if labels else f"dataset {(dataset or '').rpartition('/')[2]}"
        raise _nothing(what, where, role, found)
    if len(wanted) == 1:
        _copy(client, wanted[0], tail, follow, prefix="")
        return
    _copy_all(client, wanted, tail, follow)


def _named(roles: list[RoleLine], name: str) -> list[RoleLine]:
    """The processes of a dataset, or one of them."""
    if not name:
        raise ConfigError.of("whose logs?", hint="headrace logs imagenet, or -l role=worker")
    of_dataset = [each for each in roles if each.dataset == name]
    return of_dataset or [each for each in roles if process_name(each) == name]


def _meant(word: str) -> tuple[str, str]:
    """The kind of an operation in the singular, or `dataset`, and the name."""
    kind, slash, name = word.rpartition("/")
    found = kinds_called(kind) if slash else ()
    operations = [each for each in found if issubclass(each.model, get_args(Operation))]
    return operations[0].singular if operations else "dataset", name


def _of_operation(kind: str, name: str, namespace: str, roles: Iterable[RoleLine]) -> RoleLine:
    wanted = f"operation.{namespace}.{kind}.{name}"
    for each in roles:
        if each.id == wanted:
            return each
    raise MissingFileError.of(
        f"{kind} {name} in namespace {namespace} has no process", hint=f"headrace describe {kind} {name}"
    )


def _selected(client: LocalClient, where: str, roles: list[RoleLine], labels: str) -> list[RoleLine]:
    selector = parse_selector(labels)
    datasets = client.objects(["Dataset"], namespace=where).items
    own = {item["metadata"]["name"]: item["metadata"].get("labels") or {} for item in datasets}
    return [
        each for each in roles if selector.fits_labels({**own.get(each.dataset, {}), **process_labels(each)})
    ]


def _nothing(what: str, where: str, role: str | None, found: list[RoleLine]) -> MissingFileError:
    known = ", ".join(each.id for each in found)
    name = what.rpartition(" ")[2]
    return MissingFileError.of(
        f"{what} in namespace {where} has no process{f' {role}' if role else ''}",
        hint=f"known are {known}" if known else f"headrace describe dataset {name}",
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
