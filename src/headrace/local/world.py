"""What a reconciler works with: what is declared, and the means to change what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.local.database import Database
from headrace.local.events import Events
from headrace.local.folders import Folders
from headrace.local.nodes import Nodes
from headrace.local.places import Places
from headrace.local.reconciler import Dataset
from headrace.local.roles import TRAINING_PREFIX, RoleRecord, Roles
from headrace.local.store import Store
from headrace.local.uses import Uses
from headrace.plan.observed import RoleFacts
from headrace.settings.environment import Environment


class World:
    """One backend. Store, events, nodes and folders may be used from any thread, roles and uses from the
    event loop alone."""

    def __init__(self, database: Database, places: Places, environment: Environment) -> None:
        self.database = database
        self.places = places
        self.environment = environment
        self.store = Store(database)
        self.events = Events(database)
        self.nodes = Nodes(database, places.nodes)
        self.folders = Folders(database)
        self.roles = Roles(database, environment, self._role_ended)
        self.on_role_end: Callable[[RoleRecord], None] = lambda _: None
        """Called in the event loop when a role has ended, by itself or stopped."""
        self.on_training_end: Callable[[RoleRecord], None] = lambda _: None
        """The same, for processes of training jobs."""
        self.look_at: Callable[[Iterable[Dataset]], None] = lambda _: None
        """Has datasets (namespace, name) looked at soon. Of the event loop alone."""
        self.seen_roles: dict[str, RoleFacts] = {}
        """How each role was when its dataset was looked at last, by the id of its order. Of the event loop alone."""
        self.on_nodes_change: Callable[[], None] = lambda: None
        """May be called from any thread, after there are more nodes, or one is another."""
        self.uses = Uses(database, self.folders, self._use_changed)

    def _role_ended(self, record: RoleRecord) -> None:
        if record.order.id.startswith(TRAINING_PREFIX):
            self.on_training_end(record)
        else:
            self.on_role_end(record)

    def _use_changed(self, datasets: Iterable[Dataset]) -> None:
        self.look_at(datasets)
