"""The pages of a process and those who ask too much of them."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import pytest

from headrace.listening.crowd import Bounds
from headrace.roles.pages.page_request import MOST_HEAD_BYTES, Page
from headrace.roles.pages.pages import Pages, _Visitor

PATIENCE_S = 60
LARGE = "x" * (8 << 20)


class Site:
    """Pages of which one is slow, until it is let go."""

    def __init__(self, **settings: Any) -> None:
        self.may_answer = threading.Event()
        self.made = 0
        self.connections: list[socket.socket] = []
        self.is_asked = threading.Event()
        self.pages = Pages(
            "127.0.0.1:0", self.answer, purpose="", setting="", slow=frozenset({"/slow"}), **settings
        )

    def answer(self, path: str) -> Page:
        if path == "/slow":
            self.made += 1
            self.is_asked.set()
            self.may_answer.wait(PATIENCE_S)
        if path == "/broken":
            raise ValueError("a fault of ours")
        return Page(HTTPStatus.OK, LARGE if path == "/large" else f"{path}\n")

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.pages.port}{path}", timeout=PATIENCE_S) as told:
            return str(told.read().decode())

    def connect(self, said: str) -> socket.socket:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(PATIENCE_S)
        connection.connect(("127.0.0.1", self.pages.port))
        connection.sendall(said.encode())
        self.connections.append(connection)
        return connection

    def close(self) -> None:
        for connection in self.connections:
            connection.close()
        self.may_answer.set()
        self.pages.close()


@pytest.fixture
def make() -> Iterator[Callable[..., Site]]:
    with contextlib.ExitStack() as stack:

        def new(**settings: Any) -> Site:
            site = Site(**settings)
            stack.callback(site.close)
            return site

        yield new


def is_closed(connection: socket.socket) -> bool:
    with contextlib.suppress(ConnectionError):
        while connection.recv(1 << 20):
            pass
    return True


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_connections_that_say_nothing_cost_no_threads_and_are_in_nobodys_way(
    make: Callable[..., Site],
) -> None:
    site = make(timeout_s=600)
    before = len(os.listdir("/proc/self/task"))
    idle = [site.connect(said) for said in ("", "GET /heal", "GET /healthz HTTP/1.1\r\nHost: m\r\n") * 60]
    assert site.get("/healthz") == "/healthz\n"
    assert len(os.listdir("/proc/self/task")) == before
    assert site.pages.visitors <= 128
    assert is_closed(idle[0]), "the oldest goes"


def test_a_probe_is_answered_while_a_slow_page_is_made_and_many_wait_for_it(
    make: Callable[..., Site],
) -> None:
    site = make(timeout_s=600)
    waiting = [site.connect("GET /slow HTTP/1.1\r\n\r\n") for _ in range(50)]
    site.is_asked.wait(PATIENCE_S)
    for _ in range(3):
        assert site.get("/healthz") == "/healthz\n"
    until(lambda: site.pages.visitors == 50)
    site.may_answer.set()
    for connection in waiting:
        assert connection.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")
    assert site.made <= 50
    assert site.get("/slow") == "/slow\n"


def test_who_asks_while_a_page_is_made_gets_the_next_one(make: Callable[..., Site]) -> None:
    site = make()
    first = site.connect("GET /slow HTTP/1.1\r\n\r\n")
    site.is_asked.wait(PATIENCE_S)
    later = [site.connect("GET /slow HTTP/1.1\r\n\r\n") for _ in range(5)]
    until(lambda: site.pages.visitors == 6)
    assert site.get("/healthz") == "/healthz\n", "all before it were heard"
    site.may_answer.set()
    assert all(is_closed(connection) for connection in (first, *later))
    assert site.made == 2


def test_who_asked_for_a_slow_page_and_left_is_forgotten(make: Callable[..., Site]) -> None:
    """Without a page that is made, nobody else would look at them."""
    site = make(bounds=Bounds(connections=4, strangers=4, strangers_of_address=4))
    site.connect("GET /slow HTTP/1.1\r\n\r\n")
    site.is_asked.wait(PATIENCE_S)
    for _ in range(50):
        site.connect("GET /slow HTTP/1.1\r\n\r\n")
        assert site.get("/healthz") == "/healthz\n"
    gc.collect()
    assert sum(type(each) is _Visitor for each in gc.get_objects()) <= 8


@pytest.mark.parametrize("said", ["", "GET /heal", "GET /large HTTP/1.1\r\n\r\n"])
def test_who_takes_too_long_is_closed(make: Callable[..., Site], said: str) -> None:
    site = make(timeout_s=0.2)
    site.connect(said)
    until(lambda: site.pages.visitors == 1)
    until(lambda: site.pages.visitors == 0)


def test_answers_that_nobody_reads_are_bounded(make: Callable[..., Site]) -> None:
    site = make(timeout_s=600, bounds=Bounds(held_bytes=20 << 20))
    for _ in range(5):
        site.connect("GET /large HTTP/1.1\r\n\r\n")
    assert site.get("/healthz") == "/healthz\n"
    until(lambda: site.pages.visitors == 2)
    assert len(site.get("/large")) == len(LARGE)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("POST /healthz HTTP/1.1\r\n\r\n", 405),
        ("nonsense\r\n\r\n", 400),
        ("\r\n\r\n", 400),
        ("GET /broken HTTP/1.1\r\n\r\n", 500),
        ("GET /healthz?x=1 HTTP/1.0\n\n", 200),
    ],
)
def test_each_request_gets_one_answer(make: Callable[..., Site], said: str, status: int) -> None:
    site = make()
    with site.connect(said) as connection:
        assert connection.recv(100).startswith(f"HTTP/1.1 {status} ".encode())


def test_a_head_without_an_end_is_closed(make: Callable[..., Site]) -> None:
    site = make(timeout_s=600)
    assert is_closed(site.connect("GET /" + "a" * MOST_HEAD_BYTES))
    assert site.get("/healthz") == "/healthz\n"
