"""The supervisor's part in invalidations: it sends for the mount process, which nobody may have to wait for.

The kernel can hold the sender of an invalidation, beyond the reach of any signal, until a look-up is answered. A mount
process that is killed meanwhile would never end, its successor never start, and the look-up never be answered. Here it
is a thread of the supervisor that waits, and whoever answers the look-up frees it. Format: docs/format/mount-ledger.md.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import threading
from collections.abc import Iterator

_LARGEST_BYTES = 64 << 10
# Length, code and unique; unique 0 is what tells a message from an answer to a request.
_HEADER = struct.Struct("=IiQ")
_ANSWER = struct.Struct("<III")
_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS}
# The kernel does not know the name or inode, or the mount is gone.
_NOTHING_TO_FORGET = {errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENOTCONN, errno.ENOTEMPTY}


class Relay:
    """Sends what one mount process says to the kernel, until that process is gone."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._thread: threading.Thread | None = None

    @classmethod
    def pair(cls) -> tuple[Relay, socket.socket]:
        """A relay, and the end for the mount process. Messages sent before `start` wait."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(ours), theirs

    @classmethod
    def from_descriptor(cls, descriptor: int) -> Relay:
        """The relay whose end was inherited as `descriptor`; it is not inherited further."""
        os.set_inheritable(descriptor, False)
        return cls(socket.socket(fileno=descriptor))

    def fileno(self) -> int:
        """For handing it to the program that goes on with it before it was started."""
        return self._end.fileno()

    def start(self, connection: int) -> None:
        """Begins to send to `connection`, which remains the caller's."""
        own = os.dup(connection)
        self._thread = threading.Thread(target=self._run, args=(own,), name="relay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """For a relay that may not have been started; one that was ends with its mount process."""
        if self._thread is None:
            self._end.close()

    def has_ended(self, wait_s: float) -> bool:
        """True if it holds nothing any more, for which it gets `wait_s` seconds."""
        if self._thread is not None:
            self._thread.join(wait_s)
        return self._thread is None or not self._thread.is_alive()

    def _run(self, connection: int) -> None:
        try:
            # A mount process that was killed leaves no reader of the answer.
            with self._end, contextlib.suppress(ConnectionError):
                while packet := self._end.recv(_LARGEST_BYTES):
                    self._end.send(_ANSWER.pack(*deliver(packet, connection)), socket.MSG_NOSIGNAL)
        finally:
            os.close(connection)


def deliver(packet: bytes, connection: int) -> tuple[int, int, int]:
    """Writes each message of a packet; how many the kernel has taken, does not know of, and has refused."""
    taken = unsupported = refused = 0
    for message in _messages(packet):
        try:
            if message is None:
                refused += 1
                continue
            os.write(connection, message)
            taken += 1
        except OSError as error:
            unsupported += error.errno in _UNSUPPORTED
            refused += error.errno not in _UNSUPPORTED | _NOTHING_TO_FORGET
    return taken, unsupported, refused


def _messages(packet: bytes) -> Iterator[bytes | None]:
    """The messages; `None` for what is none, which ends it."""
    while packet:
        length, _, unique = _HEADER.unpack_from(packet) if len(packet) >= _HEADER.size else (0, 0, 0)
        if not _HEADER.size <= length <= len(packet) or unique != 0:
            yield None
            return
        yield packet[:length]
        packet = packet[length:]
