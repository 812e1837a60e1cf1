"""The masters of datasets, for work that is ordered from them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from headrace.control.client import ControlClient
from headrace.control.tokens import read_token
from headrace.errors import MissingFileError
from headrace.local.places import Places
from headrace.local.reconcile.places import Addresses, places_of
from headrace.local.reconcile.rendering import master_url
from headrace.local.roles import Roles
from headrace.plan.roles import MASTER_ID


@dataclass(frozen=True, slots=True)
class Masters:
    """Where masters answer."""

    places: Places
    addresses: Addresses
    roles: Roles

    async def client(self, title: str) -> ControlClient:
        """Asks the master of the dataset `namespace/name`. Raises `MissingFileError` when it has none."""
        places = places_of(self.places, title)
        master = master_url(places, self.addresses)
        if master is None:
            raise MissingFileError.of(f"dataset {title} has no master")
        return ControlClient(master, await asyncio.to_thread(read_token, places.token))

    def node(self, title: str) -> str | None:
        """The node of the master of a dataset."""
        record = self.roles.get(places_of(self.places, title).order_id(MASTER_ID))
        return record.order.node if record else None
