"""Listeners of processes that have no descriptor left, over real sockets: they answer, and burn no core.

Each listener runs in a process of its own with a low limit, which takes all that is left for itself, as a leak would.
"""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.roles.keeper.messages import LARGEST_BYTES, Kind, decode, encode

MOST_FILES = 64
PATIENCE_S = 60.0
MOST_BUSY_S = 0.3
"""In a second in which a process that asks without a pause is busy all the time that it gets."""
MOST_LOG_BYTES = 4096

_STARVING = """
import asyncio, os, resource, selectors, sys, threading, time
from pathlib import Path

resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_FILES, MOST_FILES))
taken = []

def begin(told):
    print(told, flush=True)
    threading.Thread(target=obey, daemon=True).start()

def obey():
    for order in sys.stdin:
        if order == "starve\\n":
            starve()
        while order == "free\\n" and taken:
            os.close(taken.pop())
        print(time.process_time(), flush=True)

def starve():
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return
"""
PROGRAMS = {
    "door": """
        from headrace.kube.probes import serve_probes

        async def serve():
            listener = await serve_probes(0, lambda: True, lambda: "")
            begin(listener.door.addresses[0][1])
            await asyncio.Event().wait()

        asyncio.run(serve())
    """,
    "pages": """
        from headrace.roles.pages.endpoint import Endpoint

        begin(Endpoint("127.0.0.1:0", lambda: "", lambda: True).port)
        threading.Event().wait()
    """,
    "keeper": """
        from headrace.csi.keeper import Keeper

        async def serve():
            keeper = Keeper(Path(sys.argv[1]), lambda _: False, unused_s=0, stranded_s=0)
            keeper.open()
            begin("listens")
            await asyncio.Event().wait()

        asyncio.run(serve())
    """,
    "ranks": """
        from headrace.local.jobs.rank_launcher import RankLauncher

        ranks = RankLauncher(Path(sys.argv[1]), "token-of-the-job")
        waiting = selectors.DefaultSelector()
        waiting.register(ranks, selectors.EVENT_READ)
        begin("listens")
        while True:
            waiting.select()
            if (request := ranks.receive()) is not None:
                os.write(request.descriptors[1], request.line.encode())
                request.close_descriptors()
                request.answer(7)
    """,
}


class Starved:
    """A listener's process without descriptors."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self._log = process, log
        self.told = self._line()

    def busy_s(self, order: str = "") -> float:
        """The processor's time that it has used so far, after an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        return float(self._line())

    def check_rest(self) -> None:
        """While somebody waits to be let in it does nothing else, and says little."""
        before_s = self.busy_s()
        time.sleep(1.0)
        assert self.busy_s() - before_s < MOST_BUSY_S
        assert self._log.stat().st_size < MOST_LOG_BYTES, self._log.read_text()[:2000]

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, self._log.read_text()[-2000:]
        return line


@contextmanager
def starved(kind: str, folder: Path) -> Iterator[Starved]:
    program = _STARVING.replace("MOST_FILES", str(MOST_FILES)) + textwrap.dedent(PROGRAMS[kind])
    log = folder / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(folder / "socket")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
        )
    try:
        yield Starved(process, log)
    finally:
        process.kill()
        process.communicate()


def is_well(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    finally:
        connection.close()


@pytest.mark.parametrize("kind", ["door", "pages"])
def test_probes_are_answered_where_no_descriptor_is_left(kind: str, tmp_path: Path) -> None:
    with starved(kind, tmp_path) as listener:
        port = int(listener.told)
        # What it needs for its first answer it has loaded then.
        assert is_well(port)
        listener.busy_s("starve")
        for _ in range(3):
            assert is_well(port)
        # Who says nothing has the one place that there is, until somebody else comes.
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as idle:
            listener.check_rest()
            assert is_well(port)
            assert idle.recv(1) == b"", "it was closed for the probe"
        listener.busy_s("free")
        assert is_well(port)


def keeper_line(path: Path) -> socket.socket:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.settimeout(PATIENCE_S)
    line.connect(str(path))
    line.send(encode(Kind.LEAVE))
    return line


def test_the_keeper_answers_one_more_and_waits_for_descriptors_in_peace(tmp_path: Path) -> None:
    with starved("keeper", tmp_path) as keeper:
        with keeper_line(tmp_path / "socket") as early:
            assert decode(early.recv(LARGEST_BYTES)).kind is Kind.REFUSED
        keeper.busy_s("starve")
        with keeper_line(tmp_path / "socket") as first:
            assert decode(first.recv(LARGEST_BYTES)).kind is Kind.REFUSED, (
                "nothing is held that could be left"
            )
            with keeper_line(tmp_path / "socket") as second:
                keeper.check_rest()
                keeper.busy_s("free")
                assert decode(second.recv(LARGEST_BYTES)).kind is Kind.REFUSED


def test_an_instance_that_cannot_let_ranks_in_lives_on_and_lets_them_in_later(tmp_path: Path) -> None:
    asking = """
import os, sys
from pathlib import Path
from headrace.local.jobs import rank_launcher
rank_launcher.SOCKET_FILE = "socket"
sys.exit(rank_launcher.ask(Path(sys.argv[1]), "token-of-the-job", "a line"))
"""
    with starved("ranks", tmp_path) as instance:
        instance.busy_s("starve")
        command = [sys.executable, "-c", asking, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as rank:
            instance.check_rest()
            instance.busy_s("free")
            assert rank.communicate(timeout=PATIENCE_S)[0] == "a line"
            assert rank.returncode == 7
