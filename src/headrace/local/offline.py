"""A backend as its files tell of it, for who has to know while its supervisor does not answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from headrace.api.kinds import KINDS
from headrace.engine.registry import started_ticks
from headrace.local.database import Database
from headrace.local.lines import node_line, role_line, trouble_lines
from headrace.local.messages import BackendStatus
from headrace.local.nodes import Nodes
from headrace.local.places import Places
from headrace.local.roles import RoleRecord, read_roles
from headrace.local.store import Selection, Store


def offline_status(places: Places) -> BackendStatus | None:
    """What is written down, and which of the processes run; `None` when there is no backend. Changes nothing."""
    if not places.database.exists():
        return None
    database = Database(places.database)
    try:
        records, _ = Store(database).select(Selection(tuple(KINDS)))
        nodes = Nodes(database, places.nodes)
        network = nodes.network()
        return BackendStatus(
            pid=0,
            instance=database.instance,
            since="",
            folder=str(places.folder),
            network=network.subnet if network else "",
            nodes=tuple(map(node_line, nodes.all())),
            roles=tuple(role_line(_as_it_is(record)) for record in read_roles(database)),
            objects=dict(Counter(record.reference.kind for record in records)),
            troubles=tuple(trouble_lines(records)),
        )
    finally:
        database.close()


def _as_it_is(record: RoleRecord) -> RoleRecord:
    runs = bool(record.pid) and started_ticks(record.pid) == record.started_ticks
    return record if runs else replace(record, state="ended", pid=0)
