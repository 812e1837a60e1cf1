"""Starting ranks of MPI in another instance of the same job: what ssh does elsewhere, on one machine.

`mpirun` runs this module as its agent, with a folder, the name of an instance and a line for a shell. It hands its own
standard streams and the job's token to the process of the instance, over a Unix socket, and ends as the line ends.
docs/format/local-jobs.md describes what is said. Kept small: `mpirun` starts one for every worker.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOCKET_FILE = "exec.sock"
TOKEN_FILE = "token"  # noqa: S105 - a name, not a token
INSTANCES = "instances"
MAGIC = b"HREXEC1\n"
_HEAD = struct.Struct("!II")
_ANSWER = struct.Struct("!i")
_LARGEST_BYTES = 1 << 20
_STREAMS = 3
_HELLO_S = 10.0
_PAUSE_S = 0.05
_CREDENTIALS = struct.Struct("3i")


@dataclass(slots=True)
class RankRequest:
    """A line that somebody wants to be run here, who waits for its exit code."""

    line: str
    descriptors: tuple[int, int, int]
    connection: socket.socket

    def close_descriptors(self) -> None:
        """The program has them."""
        for each in self.descriptors:
            os.close(each)

    def answer(self, code: int) -> None:
        """Tells how it ended; who does not wait any more does not matter."""
        with contextlib.suppress(OSError):
            self.connection.sendall(_ANSWER.pack(code))
        self.connection.close()


class RankLauncher:
    """The door of an instance: open to a process that has the token of its job, and is of its user or root."""

    def __init__(self, path: Path, token: str) -> None:
        """Listens. Raises `OSError`."""
        self._token = token.encode()
        path.unlink(missing_ok=True)
        with _near(path) as address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            before = os.umask(0o177)
            try:
                self._socket.bind(address)
            finally:
                os.umask(before)
        self._socket.listen(64)

    def fileno(self) -> int:
        """For a selector."""
        return self._socket.fileno()

    def receive(self) -> RankRequest | None:
        """The one who knocked; `None` for a stranger, who is told nothing."""
        try:
            connection, _ = self._socket.accept()
        except OSError:
            # Out of descriptors, most likely: whoever asks when to look would ask again at once.
            time.sleep(_PAUSE_S)
            return None
        descriptors: list[int] = []
        try:
            connection.settimeout(_HELLO_S)
            token, line = self._hear(connection, descriptors)
            if len(descriptors) == _STREAMS and hmac.compare_digest(token, self._token) and self._token:
                connection.settimeout(None)
                first, second, third = descriptors
                return RankRequest(line.decode(errors="surrogateescape"), (first, second, third), connection)
        except (OSError, ValueError, EOFError):
            pass
        for each in descriptors:
            os.close(each)
        connection.close()
        return None

    def _hear(self, connection: socket.socket, descriptors: list[int]) -> tuple[bytes, bytes]:
        packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(packed)[1] not in (0, os.geteuid()):
            raise ValueError("another user")
        head, received, _, _ = socket.recv_fds(connection, len(MAGIC) + _HEAD.size, _STREAMS)
        descriptors += received
        for each in received:
            # What a program starts in the background must not hold on to the streams of who asked.
            os.set_inheritable(each, False)
        head += _exactly(connection, len(MAGIC) + _HEAD.size - len(head))
        token_bytes, line_bytes = _HEAD.unpack(head[len(MAGIC) :])
        if not head.startswith(MAGIC) or token_bytes + line_bytes > _LARGEST_BYTES:
            raise ValueError("another protocol")
        return _exactly(connection, token_bytes), _exactly(connection, line_bytes)


def ask(folder: Path, token: str, line: str) -> int:
    """Runs a line in the instance of a folder, with the streams of this process; its exit code.

    Raises `OSError` when the instance is not there, `EOFError` when it goes away or does not let us in.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        with _near(folder / SOCKET_FILE) as address:
            connection.connect(address)
        said, words = token.encode(), line.encode(errors="surrogateescape")
        head = MAGIC + _HEAD.pack(len(said), len(words))
        socket.send_fds(connection, [head], [0, 1, 2])
        connection.sendall(said + words)
        (code,) = _ANSWER.unpack(_exactly(connection, _ANSWER.size))
        return int(code)


@contextlib.contextmanager
def _near(path: Path) -> Iterator[str]:
    """An address for a socket however long its path is: by a descriptor of its folder."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def main() -> int:
    """`JOB-FOLDER INSTANCE WORD...`: the words are a line for a shell, as those of ssh are."""
    job, name, *words = sys.argv[1:]
    try:
        token = (Path(job) / TOKEN_FILE).read_text(encoding="ascii")
        if "/" in name:
            raise FileNotFoundError(2, "no such instance", name)
        return ask(Path(job) / INSTANCES / name, token, " ".join(words))
    except (OSError, EOFError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it went away"
        sys.stderr.write(f"headrace: ranks cannot be started in {name}: {why}\n")
        return 255


if __name__ == "__main__":
    sys.exit(main())
