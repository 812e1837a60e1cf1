"""One node of a bed: an address, a folder, processes that run there, and, where the rights allow, a link of its own.

Knows nothing of how nodes are joined, nor of what runs on them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headrace.testing.counting_proxy import FetchLog
from headrace.testing.processes import ServerProcess, free_port

CALL_TIMEOUT_S = 180.0


class UnsupportedError(RuntimeError):
    """The bed cannot do this here, mostly for want of rights; the message says what is missing."""


@dataclass(frozen=True)
class LinkBytes:
    """The bytes over a node's link so far, in both directions as the node sees them, headers included."""

    received: int
    sent: int

    def __sub__(self, earlier: LinkBytes) -> LinkBytes:
        return LinkBytes(self.received - earlier.received, self.sent - earlier.sent)


class Link(Protocol):
    """The cable between a node and the switch."""

    def down(self) -> None: ...

    def up(self) -> None: ...

    def set_rate(self, sent: int | None, received: int | None) -> None:
        """Limits each direction, in bits a second, as the node sees them; None takes a limit away."""

    def counted(self) -> LinkBytes: ...


class Node:
    """A node for the processes of a bed. All of them are gone when the bed is closed."""

    def __init__(
        self,
        name: str,
        address: str,
        folder: Path,
        *,
        prefix: Sequence[str] = (),
        link: Link,
        clear: Callable[[], None] = lambda: None,
    ) -> None:
        """`prefix` is put before every command; `clear` ends what the processes may have left behind."""
        self.name = name
        self.address = address
        self.folder = folder
        self.command_prefix = prefix
        self._link = link
        self._clear = clear
        self._processes: list[ServerProcess] = []
        for made in (self.state_folder, self.cache_folder, self.log_folder):
            made.mkdir(parents=True, exist_ok=True)

    @property
    def state_folder(self) -> Path:
        return self.folder / "state"

    @property
    def cache_folder(self) -> Path:
        return self.folder / "cache"

    @property
    def log_folder(self) -> Path:
        return self.folder / "logs"

    def run(
        self,
        command: Sequence[str | Path],
        *,
        name: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ServerProcess:
        """Starts a process on this node. Its output is appended to `logs/NAME.log` (the program's name by default)."""
        words = [str(word) for word in command]
        log_path = self.log_folder / f"{name or Path(words[0]).name}.log"
        process = ServerProcess(words, log_path=log_path, prefix=self.command_prefix, environment=environment)
        self._processes = [one for one in self._processes if one.is_running()]
        self._processes.append(process)
        return process

    def call(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command on this node to its end, whatever its exit code."""
        return subprocess.run(
            [*self.command_prefix, *map(str, command)],
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )

    def freeze(self, process: ServerProcess) -> None:
        """Stops a process: alive and silent, its connections open."""
        process.freeze()

    def thaw(self, process: ServerProcess) -> None:
        process.thaw()

    def kill(self, process: ServerProcess) -> None:
        """Ends a process and what descends from it, as a crash would."""
        process.kill()

    def link_down(self) -> None:
        """Pulls the cable: nothing comes or goes, nobody is told."""
        self._link.down()

    def link_up(self) -> None:
        self._link.up()

    def set_rate(self, bits_per_s: int | None, *, received_bits_per_s: int | None = None) -> None:
        """Limits what this node sends, and what it receives where that is given; None takes a limit away."""
        self._link.set_rate(bits_per_s, received_bits_per_s)

    def link_bytes(self) -> LinkBytes:
        return self._link.counted()

    def close(self) -> None:
        """Kills everything that was started here. Safe to call twice."""
        for process in self._processes:
            process.kill()
        self._processes.clear()
        self._clear()


class ServerPlace:
    """A node as a place for `headrace.testing.s3_server.S3Server`, with its objects' bytes counted if asked."""

    def __init__(self, node: Node, *, log: FetchLog | None = None) -> None:
        """With a log, a counting proxy on the node stands before the server."""
        self.node = node
        self.server_address = node.address
        self.command_prefix: Sequence[str] = node.command_prefix
        self._log = log

    def publish(self, port: int) -> str:
        """The address that clients connect to."""
        if self._log is None:
            return f"{self.server_address}:{port}"
        self._log.begin()
        listen, upstream = f"{self.node.address}:{free_port()}", f"{self.server_address}:{port}"
        module = "headrace.testing.counting_proxy"
        command = [sys.executable, "-m", module, listen, upstream, str(self._log.folder)]
        proxy = self.node.run(command, name="counting-proxy")
        proxy.wait_until(lambda: b"ready" in proxy.log_path.read_bytes())
        return listen

    def received_bytes(self) -> int:
        """The number of bytes that clients received from here, headers included."""
        return self.node.link_bytes().sent

    def close(self) -> None:
        with contextlib.suppress(UnsupportedError):
            self.node.close()
