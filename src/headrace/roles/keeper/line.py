"""A supervisor's line to the keeper of its node, which may come and go.

The keeper holds copies of what the supervisor keeps, in another pod, so that a mount survives the death of its whole
pod. A supervisor never depends on it: whatever fails here is said once, and tried again.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from dataclasses import dataclass
from pathlib import Path

from headrace.roles.keeper.messages import (
    LARGEST_BYTES,
    MOST_DESCRIPTORS,
    Deposit,
    GarbledError,
    Kind,
    Packet,
    decode,
    encode,
)
from headrace.trusted_folders import check_folder

# The supervisor has a mount process to look after meanwhile. A keeper that is not there is told at once; one on a busy
# node answers late, and a mount that is not left to it in time would end.
_PATIENCE_S = 5.0


@dataclass(frozen=True)
class Claimed:
    """The keeper's answer about a mountpoint: `away`, held, free, or looked after by somebody else (`refused`)."""

    away: bool = False
    deposit: Deposit | None = None
    descriptors: tuple[int, ...] = ()
    refused: str | None = None


class KeeperLine:
    """Connects, and connects again. Nothing here raises, and nothing blocks for longer than a few seconds."""

    def __init__(self, path: str, lineage: str) -> None:
        self.path = path
        self.lineage = lineage
        self.holds = False
        self._socket: socket.socket | None = None
        self._deposited: Deposit | None = None
        self._trouble: str | None = None

    def claim(self, mountpoint: str) -> Claimed:
        """Asks for what is held of `mountpoint`, and is from now on who looks after it."""
        packet, descriptors = self._ask(encode(Kind.CLAIM, {"mountpoint": mountpoint}))
        if packet is None:
            return Claimed(away=True)
        if packet.kind is Kind.REFUSED:
            return Claimed(refused=str(packet.body.get("reason")))
        if packet.kind is Kind.HELD and len(descriptors) == MOST_DESCRIPTORS:
            with contextlib.suppress(GarbledError):
                return Claimed(deposit=Deposit.of(packet.body), descriptors=descriptors)
        _close(descriptors)
        return Claimed()

    def exchange(self, deposit: Deposit, connection: int, ledger: int) -> str | None:
        """Makes sure that the keeper holds this, as far as it can now; news for the log, if there are any."""
        if self._socket is not None and self._is_gone():
            self._drop()
        if self._socket is not None and self.holds and deposit == self._deposited:
            return None
        packet, _ = self._ask(deposit.packet(), (connection, ledger))
        if packet is not None and packet.kind is Kind.DONE:
            again, self._deposited, self.holds, self._trouble = self.holds, deposit, True, None
            return None if again else f"the keeper at {self.path} holds what a successor needs"
        return self._news(packet)

    def leave(self) -> bool:
        """True when the keeper says that it looks after what was deposited from now on, and when it ends."""
        if self._socket is None:
            return False
        packet, _ = self._ask(encode(Kind.LEAVE))
        return packet is not None and packet.kind is Kind.DONE

    def withdraw(self) -> None:
        """Makes the keeper forget what it holds of the mountpoint."""
        if self._socket is not None:
            self._ask(encode(Kind.WITHDRAW))
            self._drop()

    def _news(self, packet: Packet | None) -> str | None:
        why = f"the keeper at {self.path} is away"
        if packet is not None:
            why = f"the keeper at {self.path} refuses: {packet.body.get('reason')}"
        self._drop()
        if why == self._trouble:
            return None
        self._trouble = why
        return f"{why}; the end of this supervisor would end the mount"

    def _ask(
        self, message: bytes, descriptors: tuple[int, ...] = ()
    ) -> tuple[Packet | None, tuple[int, ...]]:
        """The answer with its descriptors, which are the caller's; `None` when none came."""
        try:
            line = self._socket or self._connect()
            socket.send_fds(line, [message], list(descriptors))
            body, received, _, _ = socket.recv_fds(
                line, LARGEST_BYTES, MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
            )
        except OSError:
            self._drop()
            return None, ()
        try:
            return decode(body), tuple(received)
        except GarbledError:
            _close(tuple(received))
            self._drop()
            return None, ()

    def _connect(self) -> socket.socket:
        # What it is given lets its owner answer for the mount.
        check_folder(Path(self.path).parent)
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line.settimeout(_PATIENCE_S)
        try:
            line.connect(self.path)
        except OSError:
            line.close()
            raise
        self._socket = line
        return line

    def _is_gone(self) -> bool:
        """True when the keeper has ended the connection. It says nothing that it was not asked for."""
        poll = select.poll()
        if self._socket is not None:
            poll.register(self._socket, select.POLLIN)
        return self._socket is None or bool(poll.poll(0))

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self.holds, self._deposited = None, False, None


def _close(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
