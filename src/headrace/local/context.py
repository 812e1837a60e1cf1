"""The context of a reconciler: what is declared, and the means to change what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.local.layout import BackendLayout
from headrace.local.nodes.managed_folders import ManagedFolders
from headrace.local.nodes.virtual_nodes import VirtualNodes
from headrace.local.processes.consumers import Consumers
from headrace.local.processes.role_processes import TRAINING_PREFIX, RoleProcesses, RoleRecord
from headrace.local.reconciler import Dataset
from headrace.local.store.database import Database
from headrace.local.store.event_log import EventLog
from headrace.local.store.object_store import Store
from headrace.plan.observed import RoleFacts
from headrace.settings.environment import Environment


class BackendContext:
    """One backend. Store, events, nodes and folders may be used from any thread, roles and uses from the
    event loop alone."""

    def __init__(self, database: Database, layout: BackendLayout, environment: Environment) -> None:
        self.database = database
        self.layout = layout
        self.environment = environment
        self.store = Store(database)
        self.events = EventLog(database)
        self.nodes = VirtualNodes(database, layout.nodes)
        self.folders = ManagedFolders(database)
        self.roles = RoleProcesses(database, environment, self._role_ended)
        self.on_role_end: Callable[[RoleRecord], None] = lambda _: None
        """Called in the event loop when a role has ended, by itself or stopped."""
        self.on_training_end: Callable[[RoleRecord], None] = lambda _: None
        """The same, for processes of training jobs."""
        self.enqueue: Callable[[Iterable[Dataset]], None] = lambda _: None
        """Has datasets (namespace, name) reconciled soon. Of the event loop alone."""
        self.observed_roles: dict[str, RoleFacts] = {}
        """How each role was when its dataset was reconciled last, by the id of its order. Of the event loop alone."""
        self.on_nodes_change: Callable[[], None] = lambda: None
        """May be called from any thread, after there are more nodes, or one is another."""
        self.consumers = Consumers(database, self.folders, self._consumers_changed)

    def _role_ended(self, record: RoleRecord) -> None:
        if record.order.id.startswith(TRAINING_PREFIX):
            self.on_training_end(record)
        else:
            self.on_role_end(record)

    def _consumers_changed(self, datasets: Iterable[Dataset]) -> None:
        self.enqueue(datasets)
