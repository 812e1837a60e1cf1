"""A master and those without a token: what they can hold of it, and that its members go on beside them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from headrace.control.client import ControlClient
from headrace.control.http_call import Call
from headrace.control.messages import Message
from headrace.control.rights import Rights
from headrace.control.server import LARGEST_BODY_BYTES, Endpoint, Reply, Server
from headrace.control.signing import DIGEST, SigningKey
from headrace.control.tls import server_context
from headrace.listening.crowd import Bounds
from headrace.listening.guard import MOST_HEAD_BYTES, Times
from headrace.testing.cluster.certificates import make_authority, make_certificate

TOKEN = SecretStr("a-token-of-these-tests-0123456789")
PATIENCE_S = 60
LARGE = b"x" * (8 << 20)
PLAUSIBLE = f"Headrace-Time: 1\r\nHeadrace-Nonce: n\r\nHeadrace-Signature: v1={'0' * 64}\r\n"


async def _done(_: Call) -> Reply:
    return Reply.of(Message())


async def _large(_: Call) -> Reply:
    return Reply(LARGE)


ENDPOINTS = [
    Endpoint("POST", "/v1/drain", _done, Rights.ADMINISTRATOR),
    Endpoint("POST", "/v1/loads", _done, Rights.ADMINISTRATOR, LARGEST_BODY_BYTES),
    Endpoint("GET", "/v1/status", _done, None),
    Endpoint("GET", "/metrics", _large, None),
]


class Attacked:
    """A server, and what its attacker does."""

    def __init__(self, server: Server, port: int, stack: contextlib.AsyncExitStack) -> None:
        self.server = server
        self.port = port
        self._stack = stack

    @property
    def held_bytes(self) -> int:
        return self.server.door.crowd.held_bytes

    async def say(self, text: str | bytes = b"", size: int = 1 << 20) -> Line:
        """One more connection, on which this is said."""
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", self.port))
        reader, writer = await asyncio.open_connection(sock=connection, limit=size)
        self._stack.callback(writer.transport.abort)
        writer.write(text.encode() if isinstance(text, str) else text)
        return Line(reader, writer)

    async def works(self) -> None:
        """Members and those who look are answered."""
        async with ControlClient(f"http://127.0.0.1:{self.port}", TOKEN) as client:
            await client.drain("worker")
            await client.status()


class Line:
    """A connection of an attacker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def status(self) -> int:
        """The status of the answer that comes first."""
        async with asyncio.timeout(PATIENCE_S):
            return int((await self._reader.readuntil(b"\r\n")).split()[1])

    async def rest(self) -> bytes:
        """What comes until the server closes."""
        found = b""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE_S):
                while piece := await self._reader.read(1 << 16):
                    found += piece
        return found


@contextlib.asynccontextmanager
async def attacked(bounds: Bounds | None = None, times: Times | None = None) -> AsyncIterator[Attacked]:
    server = Server(ENDPOINTS, TOKEN, bounds=bounds, times=times)
    port = await server.start("127.0.0.1", 0)
    try:
        async with contextlib.AsyncExitStack() as stack:
            yield Attacked(server, port, stack)
    finally:
        await server.close()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.005)


PATIENT = Times(head_s=600, request_s=600, answer_s=600)
HASTY = Times(head_s=0.2, request_s=0.2, answer_s=0.2)
POST = f"POST /v1/loads HTTP/1.1\r\nHost: m\r\n{PLAUSIBLE}"


@pytest.mark.parametrize("said", ["", "GET /v1/sta", "GET / HTTP/1.1\r\nHost: m\r\n"])
def test_who_says_nothing_or_half_of_it_is_closed_when_more_come(said: str) -> None:
    async def test() -> None:
        async with attacked(Bounds(strangers_of_address=5), PATIENT) as master:
            lines = [await master.say(said) for _ in range(6)]
            await lines[0].rest()
            await master.works()
            assert master.server.door.crowd.strangers <= 5

    asyncio.run(test())


@pytest.mark.parametrize(
    "said",
    [
        "",
        "GET / HTTP/1.1\r\nHost: m\r\n",
        f"{POST}Content-Length: 100\r\n\r\nhalf",
        "GET /metrics HTTP/1.1\r\nHost: m\r\n\r\n",
    ],
    ids=["nothing", "half a head", "half a body", "an answer unread"],
)
def test_who_takes_too_long_is_closed(said: str) -> None:
    async def test() -> None:
        async with attacked(times=HASTY) as master:
            await master.say(said)
            await until(lambda: master.server.door.crowd.strangers == 1)
            await until(lambda: master.server.door.crowd.strangers == 0)
            assert master.held_bytes == 0

    asyncio.run(test())


def test_a_head_without_an_end_is_closed() -> None:
    async def test() -> None:
        async with attacked(times=PATIENT) as master:
            line = await master.say(b"GET / HTTP/1.1\r\nA: " + b"a" * MOST_HEAD_BYTES)
            await line.rest()
            await master.works()

    asyncio.run(test())


def test_unfinished_bodies_of_strangers_hold_little_of_the_master(caplog: pytest.LogCaptureFixture) -> None:
    """Six of them held 94 MiB for as long as they liked."""

    async def test() -> None:
        async with attacked(Bounds(held_bytes=1 << 20), PATIENT) as master:
            lines = []
            for _ in range(6):
                lines.append(await master.say(f"{POST}Content-Length: {LARGEST_BODY_BYTES}\r\n\r\n"))
                lines[-1].write(b"x" * (800 << 10))
            for line in lines[:5]:
                await line.rest()
            assert master.held_bytes <= 1 << 20
            await master.works()

    asyncio.run(test())
    assert not caplog.records, "what strangers do fills no log"


def test_nothing_of_a_body_is_read_for_who_does_not_know_the_token() -> None:
    async def test() -> None:
        async with attacked(times=PATIENT) as master:
            key = SigningKey.of(SecretStr("another-token-0123456789abcdef"))
            signed = key.sign_request("POST", "/v1/loads", b"x", now_ms=1)
            assert DIGEST in signed
            told = "".join(f"{name}: {value}\r\n" for name, value in signed.items())
            for headers in (told, ""):
                line = await master.say(
                    f"POST /v1/loads HTTP/1.1\r\nHost: m\r\n{headers}Content-Length: {16 << 20}\r\n\r\n"
                )
                assert await line.status() == 401

    asyncio.run(test())


@pytest.mark.parametrize(
    ("is_older", "body", "status"),
    [(True, b"{}", 200), (False, b"{}", 200), (True, b"[]", 401), (False, b"[]", 401)],
)
def test_a_member_is_known_with_its_body_or_before_and_no_other_body_is_taken(
    is_older: bool, body: bytes, status: int
) -> None:
    async def test() -> None:
        async with attacked(times=PATIENT) as master:
            signed = SigningKey.of(TOKEN).sign_request(
                "POST", "/v1/loads", b"{}", now_ms=int(time.time() * 1000)
            )
            if is_older:
                del signed[DIGEST]
            told = "".join(f"{name}: {value}\r\n" for name, value in signed.items())
            line = await master.say(
                f"POST /v1/loads HTTP/1.1\r\nHost: m\r\n{told}Content-Length: 2\r\n\r\n".encode() + body
            )
            assert await line.status() == status

    asyncio.run(test())


@pytest.mark.parametrize("age_ms", [0, 3_600_000], ids=["a replay", "late"])
def test_what_was_signed_once_makes_nobody_else_a_member(age_ms: int) -> None:
    async def test() -> None:
        async with attacked(Bounds(connections=12, strangers=6, strangers_of_address=4), PATIENT) as master:
            now_ms = int(time.time() * 1000) - age_ms
            signed = SigningKey.of(TOKEN).sign_request("POST", "/v1/loads", b"{}", now_ms=now_ms)
            told = "".join(f"{name}: {value}\r\n" for name, value in signed.items())
            seen = f"POST /v1/loads HTTP/1.1\r\nHost: m\r\n{told}Content-Length: 2\r\n\r\n{{}}"
            line = await master.say(seen)
            assert await line.status() == (401 if age_ms else 200)
            for _ in range(12):
                line = await master.say(seen)
                assert await line.status() == 401
            assert len(master.server.door.crowd) - master.server.door.crowd.strangers <= 1
            await master.works()

    asyncio.run(test())


@pytest.mark.parametrize(
    ("headers", "status"),
    [(f"Content-Length: {LARGEST_BODY_BYTES + 1}\r\n", 413), ("Transfer-Encoding: chunked\r\n", 411)],
)
def test_a_body_that_is_too_large_or_of_unknown_length_is_refused_before_it_is_sent(
    headers: str, status: int
) -> None:
    async def test() -> None:
        async with attacked(times=PATIENT) as master:
            line = await master.say(f"{POST}{headers}\r\n")
            assert await line.status() == status

    asyncio.run(test())


def test_answers_that_strangers_do_not_read_hold_little_of_the_master() -> None:
    async def test() -> None:
        async with attacked(Bounds(held_bytes=20 << 20), PATIENT) as master:
            lines = [await master.say("GET /metrics HTTP/1.1\r\nHost: m\r\n\r\n") for _ in range(5)]
            await until(lambda: master.server.door.crowd.strangers == 2)
            assert master.held_bytes <= 20 << 20
            await master.works()
            assert len(await lines[-1].rest()) > len(LARGE), "who reads gets all of it"

    asyncio.run(test())


def test_a_stranger_asks_once_on_a_connection_and_a_member_again_and_again() -> None:
    async def test() -> None:
        async with attacked(times=PATIENT) as master:
            question = "GET /v1/status HTTP/1.1\r\nHost: m\r\n\r\n"
            line = await master.say(question * 3)
            assert (await line.rest()).count(b"HTTP/1.1 200") == 1
            async with ControlClient(f"http://127.0.0.1:{master.port}", TOKEN) as client:
                for _ in range(3):
                    await client.drain("worker")
                    assert (len(master.server.door.crowd), master.server.door.crowd.strangers) == (1, 0)

    asyncio.run(test())


def test_hundreds_of_members_behind_one_address_come_at_once() -> None:
    async def test() -> None:
        async with attacked() as master, contextlib.AsyncExitStack() as stack:
            url = f"http://127.0.0.1:{master.port}"
            members = [await stack.enter_async_context(ControlClient(url, TOKEN)) for _ in range(300)]
            await asyncio.gather(*(member.drain("worker") for member in members))
            assert len(master.server.door.crowd) == 300
            # Strangers of the same address do not drive them out.
            for _ in range(50):
                await master.say("GET ")
            await asyncio.gather(*(member.drain("worker") for member in members))

    asyncio.run(test())


def test_an_unfinished_handshake_of_tls_counts_as_well(tmp_path: Path) -> None:
    make_authority(tmp_path)
    make_certificate(tmp_path, "master", "127.0.0.1")

    async def test() -> None:
        server = Server(ENDPOINTS, TOKEN, bounds=Bounds(strangers_of_address=3), times=PATIENT)
        tls = server_context(tmp_path / "master.pem", tmp_path / "master.key")
        port = await server.start("127.0.0.1", 0, tls)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(server.close)
            master = Attacked(server, port, stack)
            lines = [await master.say(b"\x16\x03\x01") for _ in range(4)]
            await lines[0].rest()
            url, authority = f"https://127.0.0.1:{port}", tmp_path / "authority.pem"
            async with ControlClient(url, TOKEN, authority=authority) as client:
                await client.drain("worker")

    asyncio.run(test())
