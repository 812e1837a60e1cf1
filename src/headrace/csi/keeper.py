"""The keeper of a node: a Unix socket where supervisors leave copies of what lets another one go on with their mounts.

Format: docs/format/keeper-protocol.md. Reads none of what it holds, and touches no mount.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import socket
import stat
import struct
import time
from collections.abc import Callable
from pathlib import Path

from headrace.csi.deposits import Deposits, Held
from headrace.errors import BusyError, ConfigError, HeadraceError
from headrace.listening.spare import Spare
from headrace.roles.keeper.keeping import is_ended
from headrace.roles.keeper.messages import (
    LARGEST_BYTES,
    MOST_DESCRIPTORS,
    Deposit,
    GarbledError,
    Kind,
    check_mountpoint,
    decode,
    encode,
)
from headrace.roles.mountpoint.detaching import abort, detach
from headrace.roles.mountpoint.mount_table import mount_at
from headrace.roles.supervision.child import is_dying
from headrace.trusted_folders import make_folder

_log = logging.getLogger("headrace.keeper")
_CREDENTIALS = struct.Struct("iII")
_MOST_LINES = 2 * 1024
_BACKLOG = 64
_PAUSE_S = 0.05


class Line:
    """The connection of one supervisor."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.pid, self.uid, _ = _CREDENTIALS.unpack(
            end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )

    def __str__(self) -> str:
        # The kernel gives no number of what lives in another container; the mount's name tells the pod then.
        return f"process {self.pid}" if self.pid else "a process of another pod"


class Keeper:
    """Answers from the event loop of its process, from `open` until `close`."""

    def __init__(
        self, path: Path, is_used: Callable[[str], bool], *, unused_s: float, stranded_s: float
    ) -> None:
        self.deposits = Deposits()
        self._path = path
        self._is_used = is_used
        self._unused_s = unused_s
        self._stranded_s = stranded_s
        self._lines: set[Line] = set()
        self._spare = Spare()
        self._pause: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Begins to answer. Raises `ConfigError`."""
        make_folder(self._path.parent)
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            self._listener.bind(str(self._path))
        except OSError as error:
            raise ConfigError.of(f"cannot listen at {self._path}: {error.strerror}") from None
        self._path.chmod(0o600)
        self._listener.listen(_BACKLOG)
        self._loop = asyncio.get_running_loop()
        self._listen()

    def close(self) -> None:
        """Ends; what is held is held no more. A mount that would be dead then, and that nobody uses, is taken off."""
        self._loop.remove_reader(self._listener)
        if self._pause is not None:
            self._pause.cancel()
        self._spare.close()
        self._listener.close()
        self._path.unlink(missing_ok=True)
        self._note_leaving()
        for held in self.deposits:
            if held.away_since_s is not None and not self._is_used(held.deposit.mountpoint):
                self._take_off(held, "the driver ends, and nobody else has it")
        for line in tuple(self._lines):
            self._end(line)
        for held in self.deposits:
            self.deposits.drop(held)

    def left_to_it(self) -> int:
        """The number of mounts that live by the keeper alone at this moment."""
        self._note_leaving()
        return self.deposits.unattended

    def _note_leaving(self) -> None:
        """Supervisors that have gone, also where the event loop has not heard of it yet."""
        for line in tuple(self._lines):
            if _has_left(line.end):
                self._end(line)

    def expire(self) -> None:
        """Takes off the mounts that nobody looks after once they are overdue."""
        now_s = time.monotonic()
        for line in tuple(self._lines):
            # Its sockets stay open as long as one of its threads hangs in the kernel. Seen only where it has a number.
            if line.pid and is_dying(line.pid):
                self._end(line)
        for held in self.deposits:
            if held.away_since_s is not None and is_ended(held.connection):
                self.deposits.drop(held)
        for held in self.deposits.overdue(now_s, self._unused_s, self._stranded_s, self._is_used):
            self._take_off(held, "nobody has looked after it for too long")

    def _take_off(self, held: Held, why: str) -> None:
        deposit = held.deposit
        _log.warning("mount/%s: taking %s off: %s", deposit.name, deposit.mountpoint, why)
        # The number of a mount that has ended may be another's by now.
        aborted = is_ended(held.connection) or abort(deposit.device)
        self.deposits.drop(held)
        if not detach(deposit.mountpoint, deposit.device, force=not aborted):
            _log.error("mount/%s: cannot unmount %s", deposit.name, deposit.mountpoint)

    # Lines

    def _listen(self) -> None:
        self._pause = None
        self._spare.renew()
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        try:
            end, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:
            self._make_room(error)
            return
        self._spare.renew()
        end.setblocking(False)
        line = Line(end)
        if line.uid not in (0, os.geteuid()) or len(self._lines) >= _MOST_LINES:
            _log.warning("keeper: turned away %s of user %s", line, line.uid)
            end.close()
            return
        self._lines.add(line)
        self._loop.add_reader(end, self._hear, line)

    def _make_room(self, error: OSError) -> None:
        """Lets one more in by the spare descriptor; listens on in a moment where that is lent."""
        if not self._spare.lend():
            _log.debug("keeper: nobody is let in for a moment: %s", error.strerror)
            self._loop.remove_reader(self._listener)
            self._pause = self._loop.call_later(_PAUSE_S, self._listen)

    def _hear(self, line: Line) -> None:
        descriptors: list[int] = []
        try:
            packet, descriptors, flags, _ = socket.recv_fds(
                line.end, LARGEST_BYTES, MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return
        except OSError:
            packet, flags = b"", 0
        if not packet:
            _close(descriptors)
            self._end(line)
            return
        try:
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise GarbledError("the message is too long")
            answer, given = self._understand(line, packet, descriptors)
        except (GarbledError, HeadraceError) as error:
            _close(descriptors)
            _log.warning("keeper: refused %s: %s", line, error)
            answer, given = encode(Kind.REFUSED, {"reason": str(error)}), []
        try:
            socket.send_fds(line.end, [answer], given)
        except OSError:
            self._end(line)

    def _understand(self, line: Line, packet: bytes, descriptors: list[int]) -> tuple[bytes, list[int]]:
        """The answer and its descriptors. Those of a deposit are kept; whoever raises leaves them to the caller."""
        message = decode(packet)
        if message.kind is Kind.DEPOSIT:
            self._keep(line, Deposit.of(message.body), descriptors)
            return encode(Kind.DONE), []
        if descriptors:
            raise GarbledError("only deposits have descriptors")
        if message.kind is Kind.CLAIM:
            held = self.deposits.claim(check_mountpoint(message.body.get("mountpoint")), line)
            if held is None:
                return encode(Kind.FREE), []
            _log.info("mount/%s: %s goes on with it", held.deposit.name, line)
            return held.deposit.packet(Kind.HELD), [held.connection, held.ledger]
        if message.kind is Kind.LEAVE:
            if not self._leave(line):
                raise BusyError.of("nothing is held that could be left")
            return encode(Kind.DONE), []
        if message.kind is Kind.WITHDRAW:
            for mountpoint in self.deposits.withdraw(line):
                _log.info("keeper: no longer holds %s", mountpoint)
            return encode(Kind.DONE), []
        raise GarbledError("that is an answer, and no question")

    def _keep(self, line: Line, deposit: Deposit, descriptors: list[int]) -> None:
        if len(descriptors) != MOST_DESCRIPTORS:
            raise GarbledError("a deposit has two descriptors")
        connection, ledger = descriptors
        _check_descriptors(connection, ledger)
        there = mount_at(deposit.mountpoint)
        if there is None or not there.is_ours or there.device != deposit.device:
            raise BusyError.of(
                f"{deposit.mountpoint} is not that mount here: mounts must propagate to the driver's pod"
            )
        self.deposits.put(Held(deposit, connection, ledger), line)
        _log.info("mount/%s: holds %s", deposit.name, deposit.mountpoint)

    def _end(self, line: Line) -> None:
        self._lines.discard(line)
        self._loop.remove_reader(line.end)
        line.end.close()
        self._leave(line)

    def _leave(self, line: Line) -> list[Held]:
        """Nobody but the keeper looks after these from now on: who said so may take a while to end."""
        left = self.deposits.leave(line, time.monotonic())
        for held in left:
            _log.info("mount/%s: %s is gone; held for its successor", held.deposit.name, line)
        return left


def _has_left(end: socket.socket) -> bool:
    """True when the other side has closed, and nothing of it is left to be heard."""
    try:
        return not end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _check_descriptors(connection: int, ledger: int) -> None:
    """Raises `GarbledError` unless they are what they are said to be."""
    device = os.fstat(connection)
    if not stat.S_ISCHR(device.st_mode) or device.st_rdev != _fuse_number():
        raise GarbledError("the first descriptor of a deposit is /dev/fuse")
    try:
        seals = fcntl.fcntl(ledger, fcntl.F_GET_SEALS)
    except OSError:
        seals = 0
    if not seals & fcntl.F_SEAL_SHRINK:
        raise GarbledError("the second descriptor of a deposit is a sealed memory file")


def _fuse_number() -> int:
    return os.makedev(10, 229)  # the kernel's own number of /dev/fuse, which need not be in this container


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
