from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.faulty_origin import FaultyOrigin
from headrace.testing.oss_server import OssServer
from headrace.testing.s3_server import S3Server

from .harness import Shell
from .servers import Bucket, exposed_shell_of, shell_of


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    """A versitygw of this test's own; about 0.2 s."""
    with S3Server(tmp_path / "objects", state=tmp_path / "server") as running:
        yield running


@pytest.fixture
def bucket(server: S3Server) -> Bucket:
    """An empty bucket."""
    made = Bucket(server)
    made.fill({})
    return made


@pytest.fixture
def shell(tmp_path: Path, request: pytest.FixtureRequest) -> Shell:
    """`headrace` in a home of its own; with a profile of the server's keys where the test has a server."""
    needs_server = "server" in request.fixturenames
    return shell_of(tmp_path / "home", request.getfixturevalue("server") if needs_server else None)


@pytest.fixture
def exposed_shell(tmp_path: Path, server: S3Server) -> Shell:
    """The same with the keys in its variables."""
    return exposed_shell_of(tmp_path / "home", server)


@pytest.fixture
def liar(server: S3Server) -> Iterator[FaultyOrigin]:
    """A proxy before the server that lies on command."""
    with FaultyOrigin(server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def lying_bucket(server: S3Server, liar: FaultyOrigin) -> Bucket:
    """An empty bucket behind the liar."""
    made = Bucket(server, endpoint=liar.endpoint)
    made.fill({})
    return made


@pytest.fixture
def oss() -> Iterator[OssServer]:
    """An OSS server without buckets; give it some by `oss.buckets[name] = OssBucket()`."""
    with OssServer() as running:
        yield running
