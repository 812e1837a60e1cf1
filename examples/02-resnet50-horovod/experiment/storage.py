"""The storage: a real S3 server behind a limited link, and s3fs on every node that reads it straight."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiment.cluster import Node
from experiment.data import Data
from headrace.testing.network import NamespaceLink, ProxyLink, storage_link
from headrace.testing.processes import ServerProcess
from headrace.testing.s3_server import S3Server

BUCKET = "imagenet"


@dataclass(frozen=True)
class Storage:
    """The running server and the link to it."""

    server: S3Server
    link: NamespaceLink | ProxyLink

    def describe_link(self) -> str:
        """For the report."""
        if isinstance(self.link, NamespaceLink):
            return "a network namespace behind a veth pair, tc tbf on the storage side"
        return "a rate-limiting TCP proxy (not root)"


@contextlib.contextmanager
def serve(data: Data, work: Path, *, rate_bits_per_s: int) -> Iterator[Storage]:
    """Serves the data as a bucket until the block ends."""
    with (
        storage_link(rate_bits_per_s) as link,
        S3Server(work / "buckets", state=work / "server", link=link) as server,
    ):
        server.link_bucket(BUCKET, data.folder)
        yield Storage(server, link)


@contextlib.contextmanager
def s3fs_on(nodes: Sequence[Node], storage: Storage, folder: Path) -> Iterator[None]:
    """The bucket at `folder`/NODE for each node, each with an s3fs of its own in the node's network, read-only."""
    keys = storage.server.credentials
    environment = {"AWSACCESSKEYID": keys.access_key_id, "AWSSECRETACCESSKEY": keys.secret_access_key}
    with contextlib.ExitStack() as stack:
        for node in nodes:
            place = folder / node.name
            place.mkdir(parents=True, exist_ok=True)
            stack.callback(unmount, place)
            process = ServerProcess(
                s3fs_command(storage.server.endpoint, place),
                log_path=folder / f"{node.name}.log",
                prefix=node.prefix,
                environment=environment,
            )
            stack.callback(process.stop)
            process.wait_until(lambda place=place: os.path.ismount(place))
        yield


def s3fs_command(endpoint: str, place: Path) -> list[str]:
    """As its manual starts it. What it has read it keeps while a file is open, and no longer: it has no disk cache."""
    options = (f"url={endpoint}", "use_path_request_style", "ro")
    return ["s3fs", BUCKET, str(place), "-f", *(f"-o{option}" for option in options)]


def unmount(place: Path) -> None:
    """Takes a mount away whatever holds it; nothing when there is none."""
    for command in (["fusermount3", "-u", "-z", str(place)], ["umount", "-l", str(place)]):
        if not _is_mounted(place):
            return
        subprocess.run(command, capture_output=True, check=False)


def _is_mounted(place: Path) -> bool:
    # os.path.ismount cannot look at a mount whose process is gone.
    return any(line.split()[1] == str(place) for line in Path("/proc/self/mounts").read_text().splitlines())
