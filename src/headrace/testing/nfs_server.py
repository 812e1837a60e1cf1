"""A real NFS server for tests: nfs-ganesha (version 3 alone) over a folder, on a machine of its own.

The machine is a network namespace, so that the server has the usual ports and its own port mapper, and several
run side by side. It needs root, and the Debian packages nfs-ganesha, nfs-ganesha-vfs and rpcbind.
"""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.netns.namespaces import can_make_namespaces
from headrace.testing.network import NamespaceLink, StorageLink
from headrace.testing.processes import ServerProcess

SCRIPT = Path(__file__).with_name("ganesha.sh")
NFS_PORT = 2049
MOUNT_PORT = 20048
# The server keeps attributes and names for a minute by default; tests change files behind its back.
CONFIGURATION = """
NFS_CORE_PARAM {{
    Protocols = 3;
    NFS_Port = {nfs_port};
    MNT_Port = {mount_port};
    Enable_NLM = false;
    Enable_RQUOTA = false;
}}
NFSv4 {{ Graceless = true; }}
MDCACHE {{ Dir_Chunk = 0; }}
EXPORT {{
    Export_Id = 1;
    Path = "{export}";
    Pseudo = "{export}";
    Protocols = 3;
    Transports = TCP;
    Access_Type = RO;
    Squash = {squash};
    SecType = sys;
    PrivilegedPort = true;
    Attr_Expiration_Time = 0;
    FSAL {{ Name = VFS; }}
}}
"""


def lacking() -> str:
    """Why no server can run here, for `skipif`; empty when one can."""
    if not can_make_namespaces():
        return "a namespace for the NFS server needs root"
    missing = [name for name in ("ganesha.nfsd", "rpcbind") if shutil.which(name, path=_path()) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


class NfsServer:
    """A running server; leaving the `with` block ends it. The files in `export` are served, at once, read-only."""

    def __init__(
        self, export: Path, *, state: Path, squash: str = "no_root_squash", link: StorageLink | None = None
    ) -> None:
        """Starts and waits until it answers. `state` (a folder outside `export`) takes configuration and logs.

        A `link` is closed with the server; without one it is a namespace of its own behind this machine.
        """
        self.export = export.resolve()
        self._state = state
        self._link = link or NamespaceLink(None)
        self.address = self._link.server_address
        for folder in (export, state):
            folder.mkdir(parents=True, exist_ok=True)
        (state / "ganesha.conf").write_text(
            CONFIGURATION.format(nfs_port=NFS_PORT, mount_port=MOUNT_PORT, export=self.export, squash=squash)
        )
        try:
            self.start()
        except BaseException:
            self._link.close()
            raise

    @property
    def uri(self) -> str:
        """The address of the exported folder."""
        return f"nfs://{self.address}{self.export}"

    def start(self) -> None:
        """Starts it, again if it was killed, under the same address."""
        command = ["sh", str(SCRIPT), str(self._state / "ganesha.conf"), str(self._state)]
        self.process = ServerProcess(
            command,
            log_path=self._state / "server.log",
            prefix=self._link.command_prefix,
            environment={"PATH": _path()},
        )
        self.process.wait_until(self._answers, timeout_s=60)

    def kill(self) -> None:
        """Ends it at once, as a crash would."""
        self.process.kill()

    def waiting_bytes(self) -> int:
        """Bytes of requests that have arrived and that the server has not taken."""
        # It listens for both kinds of addresses on one socket, which stands in the second table.
        tables = [Path(f"/proc/{self.process.pid}/net/{name}").read_text() for name in ("tcp", "tcp6")]
        fields = [line.split() for table in tables for line in table.splitlines()[1:]]
        here = [each for each in fields if int(each[1].rpartition(":")[2], 16) == NFS_PORT]
        # 01: established. Of one that only listens it would be the connections that wait.
        return sum(int(each[4].rpartition(":")[2], 16) for each in here if each[3] == "01")

    def stop(self) -> None:
        self.process.stop()
        self._link.close()

    def _answers(self) -> bool:
        return all(_listens(self.address, port) for port in (NFS_PORT, MOUNT_PORT))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _listens(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=1).close()
    except OSError:
        return False
    return True
