"""The process at the other end of a Unix socket, as the kernel reports it."""

from __future__ import annotations

import os
import socket
import struct

_CREDENTIALS = struct.Struct("3i")


def user_of(connection: socket.socket) -> int:
    """The user whose process connected."""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(packed)[1]
    return uid


def may_ask(uid: int) -> bool:
    """True for our own user and for root."""
    return uid in (0, os.geteuid())
