"""Tokens and certificates that are renewed are taken up by masters and clients that run."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from headrace.control.client import ControlClient
from headrace.control.http_call import Call
from headrace.control.messages import Message
from headrace.control.renewed_files import TRANSITION_S, Renewed, renewed_token
from headrace.control.rights import Rights, derive
from headrace.control.server import Endpoint, Reply, Server
from headrace.control.tls import renewed_server_context
from headrace.errors import HeadraceError, OriginUnreachableError, RefusedError
from headrace.testing.cluster.certificates import make_authority, make_certificate

OLD, NEW = SecretStr("an-old-token-of-these-tests-01234"), SecretStr("a-new-token-of-these-tests-012345")


async def _done(_: Call) -> Reply:
    return Reply.of(Message())


DRAIN = Endpoint("POST", "/v1/drain", _done, Rights.ADMINISTRATOR)


def write(path: Path, token: SecretStr) -> Path:
    path.write_text(token.get_secret_value())
    path.chmod(0o600)
    return path


def with_server(server: Server, test: Callable[[str], Awaitable[None]], **options: object) -> None:
    async def run() -> None:
        port = await server.start("127.0.0.1", 0, **options)  # type: ignore[arg-type]
        try:
            await test(f"127.0.0.1:{port}")
        finally:
            await server.close()

    asyncio.run(run())


def test_either_side_may_have_the_new_token_first(tmp_path: Path) -> None:
    of_server, of_client = write(tmp_path / "server", OLD), write(tmp_path / "client", OLD)

    async def test(address: str) -> None:
        url = f"http://{address}"
        async with ControlClient(url, OLD, token_file=of_client) as client:
            await client.drain("a")
            write(of_client, NEW)
            await client.drain("a")
            write(of_server, NEW)
            await client.drain("a")
        for token in (NEW, OLD):
            async with ControlClient(url, token) as other:
                await other.drain("a")
        async with ControlClient(url, SecretStr("a-token-that-nobody-ever-had-0123")) as stranger:
            with pytest.raises(RefusedError, match="does not accept the token"):
                await stranger.drain("a")

    with_server(Server([DRAIN], OLD, token_file=of_server), test)


def test_the_token_of_before_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "token", OLD)
    token = renewed_token(OLD, file, Rights.READER)
    assert token.in_force() == (OLD,)
    write(file, NEW)
    assert token.in_force() == (NEW, OLD)
    monkeypatch.setattr("time.monotonic", lambda: float("inf"))
    assert token.in_force() == (NEW,)


def test_a_file_that_changed_long_before_anybody_looked_leaves_the_token_of_before_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = renewed_token(OLD, write(tmp_path / "token", NEW), Rights.READER)
    seen_s = time.time()
    monkeypatch.setattr("time.time", lambda: seen_s + TRANSITION_S + 1)
    assert token.in_force() == (NEW,)


def test_a_file_that_holds_no_token_changes_nothing_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = write(tmp_path / "token", OLD)
    token = renewed_token(OLD, file, Rights.WORKER)
    spoilt: list[tuple[Callable[[], object], str]] = [
        (lambda: write(file, SecretStr("short")), "holds no token"),
        (lambda: write(file, derive(NEW, Rights.READER)), "reader's token"),
        (lambda: write(file, NEW).chmod(0o644), "open to every user"),
        (file.unlink, "is not there"),
    ]
    for spoil, reason in spoilt:
        caplog.clear()
        spoil()
        assert [token.newest() for _ in range(3)] == [OLD] * 3
        assert [record.levelno for record in caplog.records] == [logging.WARNING], reason
        assert reason in caplog.text
        assert "new-token" not in caplog.text
    write(file, NEW)
    assert token.newest() == NEW


def test_what_is_read_for_the_first_time_is_no_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    token = renewed_token(OLD, write(tmp_path / "token", OLD), Rights.READER)
    assert token.in_force() == (OLD,)
    assert not caplog.records


def test_a_value_is_made_once_for_each_change(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    made: list[int] = []
    renewed = Renewed("it", [tmp_path / "a"], lambda: made.append(1) or len(made))
    assert [renewed.newest() for _ in range(3)] == [1, 1, 1]
    (tmp_path / "a").write_text("x")
    assert [renewed.newest() for _ in range(3)] == [2, 2, 2]


def test_a_renewed_certificate_and_authority_are_taken_up(tmp_path: Path) -> None:
    shown, first, second = (tmp_path / name for name in ("shown", "first", "second"))
    for folder in (shown, first, second):
        folder.mkdir()
    for folder in (first, second):
        make_authority(folder)
        make_certificate(folder, "master", "127.0.0.1")

    def show(folder: Path, *names: str) -> None:
        for name in names:
            shutil.copy(folder / name, shown / name)

    show(first, "master.pem", "master.key", "authority.pem")

    async def ask(client: ControlClient) -> None:
        async with client:
            await client.drain("a")

    async def test(address: str) -> None:
        def believing(folder: Path) -> ControlClient:
            return ControlClient(f"https://{address}", OLD, authority=folder / "authority.pem")

        await ask(believing(first))
        async with believing(shown) as client:
            await client.drain("a")
            show(second, "master.pem")
            await ask(believing(first))  # the key of the new certificate is not there yet
            show(second, "master.key")
            await ask(believing(second))
            with pytest.raises(OriginUnreachableError, match="no TLS with the master"):
                await ask(believing(first))
            (shown / "authority.pem").write_text("no certificate")
            await client.drain("a")  # by the connection that is there
            show(second, "authority.pem")
            await client.drain("a")

    tls = renewed_server_context(shown / "master.pem", shown / "master.key")
    with_server(Server([DRAIN], OLD), test, tls=tls)


def test_an_authority_that_was_never_good_is_an_error(tmp_path: Path) -> None:
    async def test() -> None:
        async with ControlClient("https://127.0.0.1:1", OLD, authority=tmp_path / "absent"):
            pass

    with pytest.raises(HeadraceError, match="absent"):
        asyncio.run(test())
