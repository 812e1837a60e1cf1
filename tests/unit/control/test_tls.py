"""A master at an https:// address: who believes it, and what they are told who do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from headrace.control.client import ControlClient
from headrace.control.http_call import Call
from headrace.control.messages import Message
from headrace.control.rights import Rights
from headrace.control.server import Endpoint, Reply, Server
from headrace.control.tls import client_context, server_context
from headrace.errors import ConfigError, HeadraceError, OriginUnreachableError
from headrace.testing.cluster.certificates import make_authority, make_certificate

TOKEN = SecretStr("a-token-of-these-tests-0123456789")


async def _done(_: Call) -> Reply:
    return Reply.of(Message())


DRAIN = Endpoint("POST", "/v1/drain", _done, Rights.ADMINISTRATOR)
STATUS = Endpoint("GET", "/v1/status", _done, None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and a certificate of it for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("certificates")
    make_authority(folder)
    make_certificate(folder, "master", "127.0.0.1")
    return folder


@asynccontextmanager
async def master(folder: Path | None) -> AsyncIterator[str]:
    """A server, with HTTPS where a folder has its certificate; its `HOST:PORT`."""
    server = Server([DRAIN, STATUS], TOKEN)
    tls = server_context(folder / "master.pem", folder / "master.key") if folder else None
    port = await server.start("127.0.0.1", 0, tls)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.close()


async def ask(url: str, authority: Path | None) -> None:
    async with ControlClient(url, TOKEN, authority=authority) as client:
        await client.status()
        await client.drain("worker")


def test_who_knows_the_authority_asks_and_orders(folder: Path) -> None:
    async def test() -> None:
        async with master(folder) as address:
            await ask(f"https://{address}", folder / "authority.pem")

    asyncio.run(test())


def test_a_command_knows_the_authority_by_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "authority.pem"))

    async def test() -> None:
        async with master(folder) as address:
            await ask(f"https://{address}", None)

    asyncio.run(test())


def test_a_master_of_another_authority_is_not_believed(folder: Path, tmp_path: Path) -> None:
    make_authority(tmp_path)

    async def test() -> None:
        async with master(folder) as address:
            for authority in (None, tmp_path / "authority.pem"):
                with pytest.raises(OriginUnreachableError, match=r"no TLS with the master.*certif") as caught:
                    await ask(f"https://{address}", authority)
                assert "SSL_CERT_FILE" in (caught.value.hint or "")

    asyncio.run(test())


def test_a_certificate_for_another_address_is_not_believed(folder: Path, tmp_path: Path) -> None:
    make_authority(tmp_path)
    make_certificate(tmp_path, "master", "127.0.0.2")

    async def test() -> None:
        async with master(tmp_path) as address:
            with pytest.raises(OriginUnreachableError, match="no TLS with the master"):
                await ask(f"https://{address}", tmp_path / "authority.pem")

    asyncio.run(test())


@pytest.mark.parametrize("is_https", [True, False])
def test_the_wrong_scheme_is_an_error_of_one_line(folder: Path, is_https: bool) -> None:
    async def test() -> None:
        async with master(folder if is_https else None) as address:
            with pytest.raises(HeadraceError) as caught:
                await ask(f"{'http' if is_https else 'https'}://{address}", folder / "authority.pem")
            assert address in caught.value.message
            assert caught.value.hint

    asyncio.run(test())


def test_files_that_are_no_certificate_are_named(folder: Path, tmp_path: Path) -> None:
    empty, absent = tmp_path / "empty.pem", tmp_path / "absent.pem"
    empty.touch()
    certificate, key = folder / "master.pem", folder / "master.key"
    for bad in (empty, absent):
        for words in ((bad, key), (certificate, bad)):
            with pytest.raises(ConfigError, match=bad.name):
                server_context(*words)
        with pytest.raises(ConfigError, match=bad.name):
            client_context(bad)
    with pytest.raises(ConfigError, match="no certificate with its key"):
        server_context(certificate, folder / "authority.key")
