"""The masters of datasets, for work that is ordered from them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from headrace.control.client import ControlClient
from headrace.control.cluster_token import read_token
from headrace.errors import MissingFileError
from headrace.local.datasets.dataset_layout import Addresses, layout_of
from headrace.local.datasets.rendering import master_url
from headrace.local.layout import BackendLayout
from headrace.local.processes.role_processes import RoleProcesses
from headrace.plan.roles import MASTER_ID


@dataclass(frozen=True, slots=True)
class Masters:
    """The addresses of masters."""

    layout: BackendLayout
    addresses: Addresses
    roles: RoleProcesses

    async def client(self, title: str) -> ControlClient:
        """Asks the master of the dataset `namespace/name`. Raises `MissingFileError` when it has none."""
        layout = layout_of(self.layout, title)
        master = master_url(layout, self.addresses)
        if master is None:
            raise MissingFileError.of(f"dataset {title} has no master")
        return ControlClient(master, await asyncio.to_thread(read_token, layout.token))

    def node(self, title: str) -> str | None:
        """The node of the master of a dataset."""
        record = self.roles.get(layout_of(self.layout, title).order_id(MASTER_ID))
        return record.order.node if record else None
