"""S3 servers that nobody here wrote: how each is started over a folder of the test's own, and what it is known for.

tools/install_s3_servers.sh installs them. Those that install in seconds are part of `make test`; `make test-servers`
takes them all. docs/servers.md says what each does differently.
"""

from __future__ import annotations

import contextlib
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.testing.processes import ServerProcess, free_port, started_at_a_free_port
from headrace.testing.s3_client import Credentials, S3Client
from headrace.testing.s3_server import versitygw_program

CHECKOUT = Path(__file__).resolve().parents[2]
INSTALLED = CHECKOUT / ".cache" / "servers"
KEYS = Credentials("headrace-test-key", "headrace-test-secret-0123456789")
# Fixed in its source.
KEYS_OF_S3RVER = Credentials("S3RVER", "S3RVER")
# An account and its user.
KEYS_OF_SWIFT = Credentials("test:tester", "headrace-test-secret-0123456789")
ALL_ARE_TESTED = os.environ.get("HEADRACE_TEST_SERVERS") == "all"


@dataclass(frozen=True)
class Program:
    """The words that start a server, and variables that it takes."""

    words: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Kind:
    """One server; `quick` ones are installed for `make test`."""

    name: str
    program: Callable[[Path, int], Program]
    quick: bool = False
    keys: Credentials = KEYS
    # Keys that are refused, or listed under another name, by the server itself.
    not_kept: frozenset[str] = frozenset()
    # Keys that it lists with a character that stands for another: nobody can ask for them.
    garbled: frozenset[str] = frozenset()
    # It tells them in another order than that of their bytes.
    unordered: bool = False
    # It takes an upload in parts as boto3 does it by default, with checksums.
    takes_summed_parts: bool = True
    # It tells what proves such an object: the checksum of its parts, or the parts.
    proves_parts: bool = True
    # How many keys it is given beside: more than a page holds where that is done in a moment.
    paged: int = 1_020

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Running:
    """A server with one empty bucket, `data`."""

    kind: Kind
    endpoint: str
    client: S3Client

    @property
    def options(self) -> dict[str, str]:
        return {
            "endpoint": self.endpoint,
            "path-style": "true",
            "aws.accessKeyId": self.kind.keys.access_key_id,
            "aws.secretKey": self.kind.keys.secret_access_key,
        }


@contextlib.contextmanager
def running(kind: Kind, folder: Path) -> Iterator[Running]:
    """Starts the server over `folder`, and makes its bucket."""
    data = folder / "data-of-server"
    data.mkdir()
    endpoint = ""

    def started(port: int) -> ServerProcess:
        nonlocal endpoint
        endpoint, program = f"http://127.0.0.1:{port}", kind.program(data, port)
        log = folder / f"{kind.name}.log"
        return ServerProcess(program.words, log_path=log, environment=program.environment)

    with started_at_a_free_port(started, lambda: _answers(endpoint)):
        client = S3Client(endpoint, kind.keys)
        client.create_bucket("data")
        yield Running(kind, endpoint, client)


def _answers(endpoint: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(endpoint, timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def _versitygw(data: Path, port: int) -> Program:
    words = [str(versitygw_program()), "--quiet", "--keep-alive", "--port", f"127.0.0.1:{port}"]
    return Program(
        [*words, "posix", str(data)],
        {"ROOT_ACCESS_KEY_ID": KEYS.access_key_id, "ROOT_SECRET_ACCESS_KEY": KEYS.secret_access_key},
    )


def _moto(_data: Path, port: int) -> Program:
    return Program([str(INSTALLED / "moto" / "bin" / "moto_server"), "-H", "127.0.0.1", "-p", str(port)])


def _gofakes3(_data: Path, port: int) -> Program:
    return Program(
        [str(INSTALLED / "gofakes3"), "-backend", "memory", "-host", f"127.0.0.1:{port}", "-quiet"]
    )


def _s3rver(data: Path, port: int) -> Program:
    script = INSTALLED / "s3rver" / "node_modules" / "s3rver" / "bin" / "s3rver.js"
    # Its pages need a digest that newer versions of OpenSSL call legacy.
    words = ["node", "--no-deprecation", "--openssl-legacy-provider", str(script)]
    return Program([*words, "-d", str(data), "-a", "127.0.0.1", "-p", str(port), "--silent"])


def _s3proxy(data: Path, port: int) -> Program:
    settings = {
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.endpoint": f"http://127.0.0.1:{port}",
        "s3proxy.identity": KEYS.access_key_id,
        "s3proxy.credential": KEYS.secret_access_key,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": str(data),
    }
    file = data.parent / "s3proxy.conf"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return Program(["java", "-jar", str(INSTALLED / "s3proxy.jar"), "--properties", str(file)])


def _s3mock(data: Path, port: int) -> Program:
    words = [
        "java",
        "-jar",
        str(INSTALLED / "s3mock.jar"),
        f"--http.port={port}",
        f"--server.port={free_port()}",
    ]
    return Program(words, {"COM_ADOBE_TESTING_S3MOCK_STORE_ROOT": str(data)})


def _minio(data: Path, port: int) -> Program:
    words = [str(INSTALLED / "minio"), "server", "--quiet", "--address", f"127.0.0.1:{port}"]
    environment = {
        "MINIO_ROOT_USER": KEYS.access_key_id,
        "MINIO_ROOT_PASSWORD": KEYS.secret_access_key,
        "MINIO_BROWSER": "off",
        # It asks for a newer one of itself otherwise.
        "MINIO_UPDATE": "off",
    }
    return Program([*words, str(data)], environment)


def _seaweedfs(data: Path, port: int) -> Program:
    keys = {"accessKey": KEYS.access_key_id, "secretKey": KEYS.secret_access_key}
    identity = {"name": "test", "credentials": [keys], "actions": ["Admin", "Read", "List", "Write"]}
    file = data.parent / "seaweedfs.json"
    file.write_text(json.dumps({"identities": [identity]}))
    words = [str(INSTALLED / "weed"), "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3"]
    words += [f"-dir={data}", f"-s3.config={file}", f"-s3.port={port}"]
    # It would tell its makers of itself, open ports for other protocols, and take its time to end.
    words += ["-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.preStopSeconds=0"]
    words += [f"-{part}.localSocket={data.parent / part}.sock" for part in ("s3", "filer")]
    others = ("master.port", "volume.port", "filer.port")
    grpc = (f"{each}.grpc" for each in (*others, "s3.port"))
    return Program([*words, *(f"-{each}={free_port()}" for each in (*others, *grpc))])


def _rclone(data: Path, port: int) -> Program:
    keys = f"{KEYS.access_key_id},{KEYS.secret_access_key}"
    words = [str(INSTALLED / "rclone"), "serve", "s3", "--config", "", "--addr", f"127.0.0.1:{port}"]
    return Program([*words, "--auth-key", keys, str(data)])


def _swift(data: Path, port: int) -> Program:
    words = [str(INSTALLED / "swift" / "bin" / "python"), str(Path(__file__).with_name("swift_server.py"))]
    keys = KEYS_OF_SWIFT
    return Program([*words, str(data), str(port), keys.access_key_id, keys.secret_access_key])


CONTROL = "control\x01character"

KINDS = (
    Kind("versitygw", _versitygw, quick=True, garbled=frozenset({CONTROL})),
    Kind("moto", _moto, quick=True, paged=0),
    Kind("gofakes3", _gofakes3, quick=True, garbled=frozenset({CONTROL})),
    Kind("s3rver", _s3rver, quick=True, keys=KEYS_OF_S3RVER, unordered=True),
    Kind("s3proxy", _s3proxy, unordered=True, takes_summed_parts=False),
    Kind("s3mock", _s3mock, unordered=True, takes_summed_parts=False),
    # Each of its keys is a file that is synced; its pages are made to hold a hundred.
    Kind("swift", _swift, keys=KEYS_OF_SWIFT, paged=120),
    Kind("minio", _minio),
    Kind("seaweedfs", _seaweedfs),
    Kind("rclone", _rclone),
)
TESTED = [kind for kind in KINDS if kind.quick or ALL_ARE_TESTED]
