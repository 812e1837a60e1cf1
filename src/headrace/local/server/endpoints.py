"""The answers of the supervisor: the store, events, nodes and roles, as messages."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import UTC, datetime

from pydantic import BaseModel

from headrace.api.kinds import KINDS
from headrace.api.manifests import object_of
from headrace.api.times import format_time
from headrace.control.http_call import Call
from headrace.errors import ConfigError, HeadraceError, MissingFileError
from headrace.local.context import BackendContext
from headrace.local.processes.consumers import Consumer
from headrace.local.programs.runs import Runs
from headrace.local.protocol import messages
from headrace.local.protocol.messages import Fault, Named, Outcome, Outcomes
from headrace.local.server.http_server import Endpoint
from headrace.local.server.log_tail import tail
from headrace.local.server.status_lines import node_line, role_line, trouble_lines, unstarted_line
from headrace.local.server.watchers import Watchers
from headrace.local.store import admission
from headrace.local.store.event_log import Event
from headrace.local.store.object_store import Selection
from headrace.local.store.records import Reference, missing
from headrace.local.store.redaction import redacted
from headrace.local.store.transaction import Transaction
from headrace.plan.observed import RoleState

# So that a watcher with a deadline sees it pass.
_HEARTBEAT_S = 1.0


class Endpoints:
    """The answers of one supervisor."""

    def __init__(self, context: BackendContext, watchers: Watchers, release: str) -> None:
        self._context = context
        self._store = context.store
        self._events = context.events
        self._nodes = context.nodes
        self._roles = context.roles
        self._consumers = context.consumers
        self._runs = Runs(context)
        self._watchers = watchers
        self._instance = context.database.instance
        self._folder = str(context.layout.folder)
        self._release = release
        self._since = format_time(datetime.now(UTC).replace(microsecond=0))

    def all(self) -> list[Endpoint]:
        """For the server."""
        return [
            Endpoint("GET", "/v1/hello", self.hello),
            Endpoint("GET", "/v1/status", self.status),
            Endpoint("POST", "/v1/declare", self.declare),
            Endpoint("GET", "/v1/objects", self.objects),
            Endpoint("POST", "/v1/delete", self.delete),
            Endpoint("POST", "/v1/scale", self.scale),
            Endpoint("POST", "/v1/patch", self.patch),
            Endpoint("GET", "/v1/watch", stream=self.watch),
            Endpoint("GET", "/v1/events", self.events),
            Endpoint("GET", "/v1/logs", stream=self.logs),
            Endpoint("POST", "/v1/nodes", self.add_nodes),
            Endpoint("POST", "/v1/node", self.change_node),
            Endpoint("POST", "/v1/runs", self.begin_run),
            Endpoint("GET", "/v1/runs", self.run),
            Endpoint("POST", "/v1/runs/end", self.end_run),
        ]

    async def hello(self, _: Call) -> BaseModel:
        """The supervisor's name and version."""
        return messages.Hello(pid=os.getpid(), instance=self._instance, release=self._release)

    async def status(self, _: Call) -> BaseModel:
        """How the backend does."""
        records, _version = await asyncio.to_thread(self._store.select, Selection(tuple(KINDS)))
        network = self._nodes.network()
        return messages.BackendStatus(
            pid=os.getpid(),
            instance=self._instance,
            since=self._since,
            folder=self._folder,
            network=network.subnet if network else "",
            nodes=tuple(map(node_line, self._nodes.all())),
            roles=tuple(self._role_lines()),
            objects=dict(Counter(record.reference.kind for record in records)),
            troubles=tuple(trouble_lines(records)),
            release=self._release,
            uses=tuple(_consumer_line(consumer) for consumer in self._consumers.all()),
        )

    async def declare(self, call: Call) -> BaseModel:
        """Applies or creates objects, all in one transaction; one that is refused does not hinder the others."""
        asked = call.parse(messages.Declaration)
        return await asyncio.to_thread(self._declare, asked)

    async def delete(self, call: Call) -> BaseModel:
        """Asks for deletions, in the same way."""
        asked = call.parse(messages.Deletion)

        def delete(transaction: Transaction, named: Named) -> Outcome:
            reference = _reference(named)
            if transaction.get(reference) is None and transaction.went_along(reference):
                # Documents of Fluid delete a dataset, and then the runtime that has gone with it.
                return Outcome(object=named, deed=admission.Deed.DELETED)
            if asked.cascade == "orphan":
                transaction.orphan(transaction.need(reference))
            record = transaction.delete(reference)
            document = redacted(record) if record is not None else None
            return Outcome(object=named, deed=admission.Deed.DELETED, document=document)

        return await asyncio.to_thread(self._each, asked.objects, delete)

    async def scale(self, call: Call) -> BaseModel:
        """Changes the replicas of a runtime."""
        asked = call.parse(messages.Scaling)

        def scale(transaction: Transaction, named: Named) -> Outcome:
            record = admission.scale(transaction, _reference(named), asked.replicas, current=asked.current)
            return Outcome(object=named, deed=admission.Deed.SCALED, document=redacted(record))

        return await asyncio.to_thread(self._each, [asked.object], scale)

    async def patch(self, call: Call) -> BaseModel:
        """Changes an object by a JSON merge patch."""
        asked = call.parse(messages.Patch)

        def patch(transaction: Transaction, named: Named) -> Outcome:
            record = admission.patch(transaction, _reference(named), asked.patch)
            document = redacted(record) if record is not None else None
            return Outcome(object=named, deed=admission.Deed.PATCHED, document=document)

        return await asyncio.to_thread(self._each, [asked.object], patch)

    async def objects(self, call: Call) -> BaseModel:
        """Objects at one moment. One that is named and absent is an error."""
        selection, reveal = _selection(call), call.query.get("reveal") == "1"
        records, version = await asyncio.to_thread(self._store.select, selection)
        found = {record.reference.name for record in records}
        for name in selection.names:
            if name not in found:
                namespace = selection.namespace if KINDS[selection.kinds[0]].namespaced else ""
                raise missing(Reference(selection.kinds[0], namespace or "", name))
        items = tuple(redacted(record, reveal_secrets=reveal) for record in records)
        return messages.Listing(resource_version=version, items=items)

    async def watch(self, call: Call) -> AsyncIterator[bytes]:
        """Changes from a version on, for as long as they are listened to; empty lines while nothing happens."""
        selection, version = _selection(call), call.number("since")
        with self._watchers.listening() as woken:
            while True:
                woken.clear()
                changes, version = await asyncio.to_thread(self._store.changes, version, selection)
                for change in changes:
                    line = messages.Watched(type=change.type, object=redacted(change.document))
                    yield line.model_dump_json().encode() + b"\n"
                yield b"\n"
                try:
                    await asyncio.wait_for(woken.wait(), _HEARTBEAT_S)
                except TimeoutError:
                    continue

    async def events(self, call: Call) -> BaseModel:
        """The events; the latest last."""
        reference = None
        if "name" in call.query:
            reference = Reference(_kind(call), call.query.get("namespace", ""), call.query["name"])
        namespace = call.query.get("namespace") or None
        found = await asyncio.to_thread(self._events.select, namespace, reference)
        return messages.EventLines(events=tuple(_event_line(event) for event in found))

    async def logs(self, call: Call) -> AsyncIterator[bytes]:
        """The log of a role from its last lines on; with `follow`, until the role has ended."""
        role = call.query.get("role", "")
        record = self._roles.get(role)
        if record is None:
            raise MissingFileError.of(f"there is no role '{role[:128]}'", hint="see `headrace status`")

        def goes_on() -> bool:
            present = self._roles.get(role)
            return call.query.get("follow") == "1" and present is not None and present.state == "running"

        async for piece in tail(record.order.log_file, lines=call.number("tail", 10**9), goes_on=goes_on):
            yield piece

    async def add_nodes(self, call: Call) -> BaseModel:
        """More nodes, if there are fewer than asked for."""
        await asyncio.to_thread(self._nodes.make, call.parse(messages.NodesWish))
        await asyncio.to_thread(self._context.on_nodes_change)
        return await self.status(call)

    async def change_node(self, call: Call) -> BaseModel:
        """Other labels, annotations or taints for one node."""
        node = await asyncio.to_thread(self._nodes.change, call.parse(messages.NodeChange))
        await asyncio.to_thread(self._context.on_nodes_change)
        return node_line(node)

    def _role_lines(self) -> Iterator[messages.RoleLine]:
        seen = self._context.observed_roles
        for record in self._roles.all():
            yield role_line(record, seen.get(record.order.id))
        for order_id, facts in sorted(seen.items()):
            if self._roles.get(order_id) is None and facts.state is RoleState.FAILED:
                yield unstarted_line(order_id, facts)

    async def begin_run(self, call: Call) -> BaseModel:
        """A program is about to use datasets."""
        return await self._runs.begin(call.parse(messages.RunWish))

    async def run(self, call: Call) -> BaseModel:
        """How far it is."""
        return await self._runs.state(call.query.get("id", ""))

    async def end_run(self, call: Call) -> BaseModel:
        """It will not begin."""
        ended = call.parse(messages.RunEnd)
        self._runs.end(ended.id)
        return ended

    def _declare(self, asked: messages.Declaration) -> Outcomes:
        outcomes = []
        with self._store.changing() as transaction:
            for document in asked.objects:
                outcomes.append(_declared(transaction, document, asked))
        return Outcomes(outcomes=tuple(outcomes))

    def _each(self, named: Iterable[Named], act: Callable[[Transaction, Named], Outcome]) -> Outcomes:
        outcomes = []
        with self._store.changing() as transaction:
            for each in named:
                try:
                    with transaction.attempt():
                        outcomes.append(act(transaction, each))
                except HeadraceError as error:
                    outcomes.append(Outcome(object=each, fault=Fault.of(error)))
        return Outcomes(outcomes=tuple(outcomes))


def _declared(transaction: Transaction, document: dict[str, object], asked: messages.Declaration) -> Outcome:
    named = _named_in(document)
    try:
        wish = admission.wish_of(object_of(document), asked.namespace)
        reference = wish.reference
        named = Named(kind=reference.kind, namespace=reference.namespace, name=reference.name)
        with transaction.attempt():
            if asked.verb == "create":
                record, deed = admission.create(transaction, wish), admission.Deed.CREATED
            else:
                record, deed = admission.apply(transaction, wish)
    except HeadraceError as error:
        return Outcome(object=named, fault=Fault.of(error))
    return Outcome(object=named, deed=deed, document=redacted(record))


def _named_in(document: dict[str, object]) -> Named:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    return Named(kind=str(document.get("kind", ""))[:64], name=str(name)[:253])


def _reference(named: Named) -> Reference:
    if named.kind not in KINDS:
        raise ConfigError.of(f"there is no kind of object called '{named.kind}'")
    return Reference(named.kind, named.namespace if KINDS[named.kind].namespaced else "", named.name)


def _selection(call: Call) -> Selection:
    kinds = tuple(call.query.get("kinds", "").split(","))
    for kind in kinds:
        if kind not in KINDS:
            raise ConfigError.of(f"there is no kind of object called '{kind[:64]}'")
    names = tuple(name for name in call.query.get("names", "").split(",") if name)
    return Selection(kinds, call.query.get("namespace") or None, names)


def _kind(call: Call) -> str:
    return _selection(Call({"kinds": call.query.get("kind", "")}, b"")).kinds[0]


def _consumer_line(consumer: Consumer) -> messages.ConsumerLine:
    return messages.ConsumerLine(
        user=consumer.user, node=consumer.node, datasets=tuple("/".join(each) for each in consumer.datasets)
    )


def _event_line(event: Event) -> messages.EventLine:
    reference = event.reference
    return messages.EventLine(
        object=Named(kind=reference.kind, namespace=reference.namespace, name=reference.name),
        type=event.type,
        reason=event.reason,
        message=event.message,
        source=event.source,
        count=event.count,
        first=format_time(event.first),
        last=format_time(event.last),
    )
