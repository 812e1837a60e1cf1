"""The driver as a process: its parts put together, one tick after the other, and an end in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio

from headrace.control.state_file import Lock
from headrace.csi.identity import Identity
from headrace.csi.keeper import Keeper
from headrace.csi.metrics import metrics_text
from headrace.csi.node import Node
from headrace.csi.node_folder import NodeFolder
from headrace.csi.publishing import Publishing
from headrace.csi.rebinding import Rebinding
from headrace.csi.registration import Registration
from headrace.csi.settings import CsiSettings
from headrace.csi.specification import csi_pb2_grpc, registration_pb2_grpc
from headrace.csi.state import State
from headrace.errors import ConfigError
from headrace.roles.launching.launch import raise_file_limit
from headrace.roles.pages.endpoint import Endpoint

_log = logging.getLogger("headrace.csi")
_POLL_S = 1.0
_GRACE_S = 5.0
_WELL_S = 60.0
"""A driver that has not looked around for so long is not well."""


class Driver:
    """One node's driver. `run` returns when it was told to end."""

    def __init__(self, settings: CsiSettings) -> None:
        self._settings = settings
        folder = NodeFolder(settings.node_folder)
        self._publishing = Publishing(folder, State(folder.state_file))
        self._rebinding = Rebinding(self._publishing)
        self._keeper = Keeper(
            folder.keeper_socket,
            self._publishing.uses,
            unused_s=settings.unused_after_s,
            stranded_s=settings.stranded_after_s,
        )
        self._folder = folder
        self._ticked_s = 0.0
        self._linger_until_s: float | None = None

    async def run(self) -> None:
        """Serves until SIGTERM or SIGINT. Raises `ConfigError` and `BusyError` for what keeps it from starting."""
        raise_file_limit()
        os.umask(0o077)
        self._folder.close_to_others()
        with Lock(self._folder.state, "driver"):
            self._recall()
            end = self._listen_to_signals()
            async with contextlib.AsyncExitStack() as stack:
                self._keeper.open()
                stack.callback(self._keeper.close)
                # Right before, and again: a supervisor may leave while the services end.
                stack.push_async_callback(self._linger)
                self._open_endpoint(stack)
                await stack.enter_async_context(self._services())
                _log.info("csi: serving node %s at %s", self._settings.node, self._settings.endpoint)
                await self._tick_until(end)
            _log.info("csi: ended")

    def _recall(self) -> None:
        state = self._publishing.state
        if damage := state.load():
            _log.error("csi: going on without what was published: %s", damage)
        gone = self._publishing.forget_vanished()
        _log.info("csi: %s target paths are published, %s went away", len(state), len(gone))

    async def _tick_until(self, end: asyncio.Event) -> None:
        while not end.is_set():
            await self._tick()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(end.wait(), _POLL_S)
        # With the services, so that the kubelet is answered meanwhile.
        await self._linger()

    async def _linger(self) -> None:
        """A mount that nobody looks after now lives by the keeper alone: it gets the time that its pod needs."""
        while self._keeper.left_to_it() and self._may_linger():
            await self._tick()
            await asyncio.sleep(_POLL_S / 4)

    def _may_linger(self) -> bool:
        """Both times together are as long as one is allowed to be."""
        now_s = time.monotonic()
        self._linger_until_s = self._linger_until_s or now_s + self._settings.linger_s
        return now_s < self._linger_until_s

    async def _tick(self) -> None:
        self._keeper.expire()
        await self._rebinding.reconcile()
        self._ticked_s = time.monotonic()

    def is_well(self) -> bool:
        """True if it looks around as it should."""
        return time.monotonic() - self._ticked_s < _WELL_S

    @contextlib.asynccontextmanager
    async def _services(self) -> AsyncIterator[None]:
        settings = self._settings
        main = grpc.aio.server()
        csi_pb2_grpc.add_IdentityServicer_to_server(Identity(self.is_well), main)
        csi_pb2_grpc.add_NodeServicer_to_server(Node(settings.node, self._publishing), main)
        servers = [(main, settings.socket)]
        if settings.registration is not None:
            registry = grpc.aio.server()
            registration = Registration(str(settings.kubelet_endpoint or settings.socket))
            registration_pb2_grpc.add_RegistrationServicer_to_server(registration, registry)
            servers.append((registry, settings.registration))
        for server, socket in servers:
            await _start(server, socket)
        try:
            yield
        finally:
            for server, _ in reversed(servers):
                await server.stop(_GRACE_S)

    def _open_endpoint(self, stack: contextlib.AsyncExitStack) -> None:
        if address := self._settings.metrics_address:
            endpoint = Endpoint(address, self._metrics, self.is_well, "well")
            stack.callback(endpoint.close)

    def _metrics(self) -> str:
        deposits = self._keeper.deposits
        return metrics_text(
            published=len(self._publishing.state),
            held=len(deposits.held),
            unattended=deposits.unattended,
            rebound=self._rebinding.count,
        )

    @staticmethod
    def _listen_to_signals() -> asyncio.Event:
        end = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, end.set)
        return end


async def _start(server: grpc.aio.Server, socket: Path) -> None:
    if not socket.parent.is_dir():
        raise ConfigError.of(
            f"the folder of the socket {socket} is not there", hint=f"mkdir -p {socket.parent}"
        )
    socket.unlink(missing_ok=True)
    try:
        server.add_insecure_port(f"unix://{socket}")
    except RuntimeError as error:
        raise ConfigError.of(f"cannot listen at {socket}: {error}") from None
    await server.start()
