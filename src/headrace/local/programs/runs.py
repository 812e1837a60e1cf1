"""Programs of `headrace run`: which node they get, what they wait for, where they find the files.

The command becomes the program, so all that is kept here is that it uses the datasets.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from headrace.api.dataset import Dataset, DatasetStatus
from headrace.errors import BusyError, ConfigError, MissingFileError, UnsupportedError
from headrace.local.context import BackendContext
from headrace.local.datasets.candidates import Candidates, NodeWish
from headrace.local.datasets.dataset_layout import Addresses, layout_of
from headrace.local.datasets.leaving import leaving_text
from headrace.local.datasets.masters import Masters
from headrace.local.datasets.mount_probe import is_mounted
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.processes.consumers import Consumer
from headrace.local.processes.process_tags import tag_of
from headrace.local.protocol import messages
from headrace.local.reconciler import Dataset as Key
from headrace.local.store.object_store import Selection
from headrace.local.store.records import Record, Reference, missing
from headrace.plan.condition_times import condition_of
from headrace.plan.node_choice import choose_node

_ANSWER_S = 3.0


class Runs:
    """The answers about programs. Used from one event loop."""

    def __init__(self, context: BackendContext) -> None:
        self._context = context
        masters = Masters(context.layout, Addresses(context.database), context.roles)
        self._candidates = Candidates(context, masters)

    async def begin(self, wish: messages.RunWish) -> messages.RunState:
        """Notes that a program is about to use datasets on a node. Raises what a person has to put right."""
        check_paths(wish.datasets)
        keys = tuple((each.namespace, each.name) for each in wish.datasets)
        for key in keys:
            self._dataset(key)
        node = await self._node(wish.node, keys)
        consumer = Consumer(
            id=f"run-{secrets.token_hex(4)}",
            title=f"headrace run {wish.program}",
            node=node.name,
            datasets=keys,
            paths=tuple(each.path for each in wish.datasets),
            pid=wish.pid,
            started_ticks=wish.started_ticks,
        )
        self._context.consumers.begin(consumer)
        return await self.state(consumer.id)

    async def state(self, consumer_id: str) -> messages.RunState:
        """The state of the files: there, or waiting for something. Raises `MissingFileError` for a dataset that
        went."""
        consumer = self._context.consumers.get(consumer_id)
        if consumer is None:
            raise MissingFileError.of(f"there is no run '{consumer_id[:64]}'")
        node = self._find(consumer.node)
        lacking = [
            self._lacking(key, node)
            for key in consumer.datasets
            if not await is_mounted(self._context, key, node)
        ]
        return messages.RunState(
            id=consumer.id,
            node=node.name,
            address=node.address,
            network=node.namespace,
            mark=tag_of(self._context.database.instance, consumer.id),
            waiting=lacking[0] if lacking else "",
            places=tuple(
                messages.RunPlace(name=key[1], mountpoint=str(self._mountpoint(key, node)), path=path)
                for key, path in zip(consumer.datasets, consumer.paths, strict=True)
            ),
        )

    def end(self, consumer_id: str) -> None:
        """The program will not begin."""
        self._context.consumers.end(consumer_id)

    def _mountpoint(self, key: Key, node: VirtualNode) -> Path:
        return layout_of(self._context.layout, "/".join(key)).mountpoint(node)

    def _dataset(self, key: Key) -> Record:
        """A dataset that may be used."""
        reference = Reference("Dataset", *key)
        records, _ = self._context.store.select(Selection(("Dataset",), key[0], (key[1],)))
        if not records:
            raise missing(reference)
        if leaving := leaving_text(self._context.store, key):
            raise BusyError.of(leaving, hint="apply it again when it is gone")
        return records[0]

    def _lacking(self, key: Key, node: VirtualNode) -> str:
        """What a dataset waits for, in a sentence."""
        thing = cast("Dataset | None", self._dataset(key).understood())
        if thing is None:
            return f"dataset {'/'.join(key)} makes no sense: see `headrace describe dataset {key[1]}`"
        status = thing.status or DatasetStatus()
        ready = condition_of(status.conditions, "Ready")
        degraded = condition_of(status.conditions, "Degraded")
        if ready is not None and ready.status != "True":
            return f"dataset {'/'.join(key)}: {ready.reason}: {ready.message}"
        if degraded is not None and degraded.status == "True":
            return f"dataset {'/'.join(key)}: {degraded.reason}: {degraded.message}"
        if ready is None:
            return f"dataset {'/'.join(key)} is being looked at"
        return f"dataset {'/'.join(key)} is being mounted on {node.name}"

    def _find(self, name: str) -> VirtualNode:
        nodes = self._context.nodes.all()
        for node in nodes:
            if node.name == name:
                return node
        raise MissingFileError.of(
            f"there is no node {name[:64]}", hint=f"there are {', '.join(node.name for node in nodes)}"
        )

    async def _node(self, wished: str | None, keys: Sequence[Key]) -> VirtualNode:
        if wished is not None:
            self._find(wished)
        name = choose_node(await self._candidates.all(keys, NodeWish(wished)))
        if name is None:
            where = f"node {wished}" if wished else "any node"
            raise ConfigError.of(
                f"the program cannot run on {where}: not ready, tainted, or excluded by the runtime's fuse part",
                hint="name another node; or change fuse.nodeSelector",
            )
        return self._find(name)


def check_paths(wished: Iterable[messages.RunDataset]) -> None:
    """Raises `ConfigError` or `UnsupportedError` for paths at which datasets cannot appear."""
    paths = [Path(each.path) for each in wished if each.path]
    if paths and os.geteuid() != 0:
        raise UnsupportedError.of(
            "only root can put files at a path of one program",
            hint="leave the path out: HEADRACE_DATASET_NAME says where the files are",
        )
    for number, path in enumerate(paths):
        if not path.is_absolute() or ".." in path.parts or path == Path("/"):
            raise ConfigError.of(f"'{path}' is no place for a dataset", hint="write NAME:/path")
        for other in paths[:number]:
            if path.is_relative_to(other) or other.is_relative_to(path):
                raise ConfigError.of(f"{other} and {path}: no dataset can be within another one")
