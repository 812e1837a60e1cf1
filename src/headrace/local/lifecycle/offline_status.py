"""A backend as its files tell of it, for who has to know while its supervisor does not answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from headrace.api.kinds import KINDS
from headrace.local.layout import BackendLayout
from headrace.local.nodes.virtual_nodes import VirtualNodes
from headrace.local.processes.role_processes import RoleRecord, read_roles
from headrace.local.protocol.messages import BackendStatus
from headrace.local.server.status_lines import node_line, role_line, trouble_lines
from headrace.local.store.database import Database
from headrace.local.store.object_store import Selection, Store
from headrace.process.stat import started_ticks


def offline_status(layout: BackendLayout) -> BackendStatus | None:
    """The recorded state, and which of the processes run; `None` when there is no backend. Changes nothing."""
    if not layout.database.exists():
        return None
    database = Database(layout.database)
    try:
        records, _ = Store(database).select(Selection(tuple(KINDS)))
        nodes = VirtualNodes(database, layout.nodes)
        network = nodes.network()
        return BackendStatus(
            pid=0,
            instance=database.instance,
            since="",
            folder=str(layout.folder),
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
