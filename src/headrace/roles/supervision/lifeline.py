"""The pair of sockets between a mount process and its supervisor: small messages, some with descriptors.

Each end notices when the other is gone. No message holds a credential. Knows no engine, so that the supervisor stays
small.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LARGEST_BYTES = 128 << 10
_MOST_DESCRIPTORS = 4

# From the supervisor: begin (with what an earlier mount process left, if there was one), hand over and end.
BEGIN = "begin"
HAND_OVER = "hand-over"
# From the mount process: what to keep for a successor, mounted and answering, told to whoever started the mount,
# stopped for a successor, unmounted, ended with a cache folder whose disk hangs.
KEPT = "kept"
SERVING = "serving"
ANSWERED = "answered"
HANDED_OVER = "handed-over"
ENDED = "ended"
UNCLOSED = "unclosed"


@dataclass(frozen=True)
class Message:
    """One message. The receiver owns its descriptors."""

    kind: str
    words: Mapping[str, Any] = field(default_factory=dict)
    descriptors: Sequence[int] = ()


class Lifeline:
    """One end."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    @classmethod
    def pair(cls) -> tuple[Lifeline, Lifeline]:
        """Two ends."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(ours), cls(theirs)

    @classmethod
    def from_descriptor(cls, descriptor: int) -> Lifeline:
        """The end that was inherited as `descriptor`; it is not inherited further."""
        os.set_inheritable(descriptor, False)
        return cls(socket.socket(fileno=descriptor))

    def fileno(self) -> int:
        """For waiting, and for handing it to a child."""
        return self._socket.fileno()

    def send(self, message: Message) -> bool:
        """Sends; false when the other end is gone."""
        body = json.dumps({"kind": message.kind, **message.words}).encode()
        if len(body) > LARGEST_BYTES:
            raise ValueError(f"a message of {len(body)} bytes")
        try:
            socket.send_fds(self._socket, [body], list(message.descriptors))
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def receive(self, *, wait: bool = True) -> Message | None:
        """The next message; `None` when the other end is gone, or none is there and `wait` is false."""
        flags = socket.MSG_CMSG_CLOEXEC | (0 if wait else socket.MSG_DONTWAIT)
        try:
            body, descriptors, _, _ = socket.recv_fds(self._socket, LARGEST_BYTES, _MOST_DESCRIPTORS, flags)
        except (BlockingIOError, ConnectionResetError):
            return None
        if not body:
            return None
        words = json.loads(body)
        return Message(words.pop("kind"), words, descriptors)

    def close(self) -> None:
        """Ends it; the other end notices."""
        self._socket.close()
