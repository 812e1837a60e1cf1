"""A real S3-compatible server for tests, the demo and the benchmarks: versitygw over a folder.

Each folder (or symbolic link to one) below `root` is a bucket; `headrace.testing.buckets` fills it. Behind a
link of `headrace.testing.network` the server runs on the far side and its endpoint is the address that
clients see.
"""

from __future__ import annotations

import re
import shutil
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.testing.network import LoopbackLink, StorageLink
from headrace.testing.processes import ServerProcess, started_at_a_free_port
from headrace.testing.s3_client import Credentials, S3Client

HEALTH_PATH = "/health"
# Not secret: the server holds test data and listens on loopback or in our own namespace only.
DEFAULT_CREDENTIALS = Credentials("headrace-test-key", "headrace-test-secret-0123456789")
# The ninth and tenth field of a line, as in S3's own server access log: "s3_GetObject folder/key".
OPERATION = re.compile(rb"^[^\n]*?\] \S+ \S+ \S+ s3_(\w+) (\S+)", re.MULTILINE)


class S3Server:
    """A running versitygw; leaving the `with` block ends it. `endpoint` is what clients connect to."""

    def __init__(
        self,
        root: Path,
        *,
        state: Path,
        link: StorageLink | None = None,
        credentials: Credentials = DEFAULT_CREDENTIALS,
        count_requests: bool = True,
    ) -> None:
        """Starts and waits until ready. `state` (a folder outside `root`) takes the log and the access log.

        `count_requests` costs the server a log line a request; without it `requests()` has nothing to count.
        """
        self.root = root
        self.credentials = credentials
        self.region = "us-east-1"
        self._link = link or LoopbackLink()
        self._access_log = state / "versitygw-access.log" if count_requests else None
        self._counted: Counter[tuple[str, str]] = Counter()
        self._counted_to = 0
        state.mkdir(parents=True, exist_ok=True)
        root.mkdir(parents=True, exist_ok=True)
        self._log = state / "versitygw.log"
        self._start()

    def give_keys(self, credentials: Credentials) -> None:
        """Starts the server anew at its endpoint, which knows these keys alone from then on."""
        self.process.stop()
        self.credentials = credentials
        self._start(int(self.endpoint.rpartition(":")[2]))

    def _start(self, known_port: int | None = None) -> None:
        def spawned(port: int) -> ServerProcess:
            process = self._spawn(port, self._log)
            self.endpoint = f"http://{self._link.publish(port)}"
            return process

        self.process = started_at_a_free_port(spawned, lambda: _is_healthy(self.endpoint), port=known_port)

    def _spawn(self, port: int, log_path: Path) -> ServerProcess:
        command = [
            str(versitygw_program()),
            # Off by default; a client that opens a connection for each request is not what we measure.
            "--keep-alive",
            *("--quiet", "--health", HEALTH_PATH, "--region", self.region),
            *("--port", f"{self._link.server_address}:{port}"),
            *(("--access-log", str(self._access_log)) if self._access_log else ()),
            *("posix", "--bucketlinks", str(self.root)),
        ]
        keys = {
            "ROOT_ACCESS_KEY_ID": self.credentials.access_key_id,
            "ROOT_SECRET_ACCESS_KEY": self.credentials.secret_access_key,
        }
        return ServerProcess(command, log_path=log_path, prefix=self._link.command_prefix, environment=keys)

    def client(self) -> S3Client:
        return S3Client(self.endpoint, self.credentials, region=self.region)

    def bucket_folder(self, bucket: str) -> Path:
        """The folder of a bucket, made if missing."""
        folder = self.root / bucket
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def link_bucket(self, bucket: str, folder: Path) -> None:
        """Serves a folder that lies elsewhere as a bucket, without copying."""
        place = self.root / bucket
        place.unlink(missing_ok=True)
        place.symlink_to(folder.resolve(), target_is_directory=True)

    def requests(self, key: str | None = None) -> Counter[str]:
        """Requests answered so far by operation ("GetObject", "ListObjectsV2", …), from the access log.

        `key`: only those about this object, as it stands there. The log does not tell the bytes of a GetObject; the
        link does (`StorageLink.received_bytes`).
        """
        if self._access_log is None or not self._access_log.exists():
            return Counter()
        with self._access_log.open("rb") as log:
            log.seek(self._counted_to)
            new = log.read()
        complete = new[: new.rfind(b"\n") + 1]
        self._counted_to += len(complete)
        self._counted.update(
            (operation.decode(), about.decode()) for operation, about in OPERATION.findall(complete)
        )
        counted: Counter[str] = Counter()
        for (operation, about), count in self._counted.items():
            if key in (None, about):
                counted[operation] += count
        return counted

    def stop(self) -> None:
        self.process.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def versitygw_program() -> Path:
    """The server's program: built by tools/install_versitygw.sh into the checkout, or on PATH."""
    for checkout in (Path.cwd(), *Path.cwd().parents, *Path(__file__).resolve().parents):
        program = checkout / ".cache" / "bin" / "versitygw"
        if program.is_file():
            return program
    on_path = shutil.which("versitygw")
    if on_path is None:
        raise FileNotFoundError("versitygw is not built; run tools/install_versitygw.sh")
    return Path(on_path)


def _is_healthy(endpoint: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(endpoint + HEALTH_PATH, timeout=1) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
