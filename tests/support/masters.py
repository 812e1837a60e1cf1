"""A master of a test: real HTTP on loopback around the doubles, inside an event loop or as a process to be killed."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web
from pydantic import SecretStr

from headrace.control.api import Api
from headrace.control.client import ControlClient
from headrace.control.cluster import Cluster
from headrace.control.messages import Heartbeat
from headrace.control.server import Server
from headrace.errors import DeadlineError, OriginUnreachableError
from headrace.roles.cluster.dataset_fingerprint import fingerprint
from headrace.roles.cluster.listing import ListingEngine
from headrace.roles.messages import MasterSpec, ProcessSpec, WorkerSpec
from headrace.roles.processes.master import rules_of
from headrace.settings.cluster import ClusterConfig
from headrace.settings.engine import EngineConfig, FolderConfig, LevelConfig, Medium
from headrace.settings.origins import OriginMount, S3Origin
from headrace.settings.roles import MasterSettings, WorkerSettings

TOKEN = SecretStr("planted-token-0123456789abcdef")
ORIGINS = (
    OriginMount(
        path="train",
        origin=S3Origin(
            bucket="b", access_key_id=SecretStr("PLANTED-ID"), secret_access_key=SecretStr("PLANTED-KEY")
        ),
    ),
)
SUPPORT = Path(__file__).parent


def master_spec(folder: Path, port: int = 0, **settings: Any) -> MasterSpec:
    """ProcessSpec with short times, but for the end of patience: a busy machine is no death."""
    told = {"heartbeat_interval_s": 0.1, "dead_after_s": 30.0, "cluster": "shop", **settings}
    return MasterSpec(
        settings=MasterSettings(listen=f"127.0.0.1:{port}", **told),
        config=EngineConfig(name="shop", origins=ORIGINS, state_directory=folder / "engine"),
        state_directory=folder,
        token=TOKEN,
    )


def worker_spec(folder: Path, master: str, name: str = "w1", **settings: Any) -> WorkerSpec:
    level = LevelConfig(
        medium=Medium.SSD, folders=(FolderConfig(path=folder / "cache", quota_bytes=1 << 30),)
    )
    nobody = {"epoch": 0, "replicas": 1, "members": []}
    config = EngineConfig(
        name=name,
        origins=ORIGINS,
        cache=(level,),
        state_directory=folder / "engine",
        cluster=ClusterConfig(view=nobody, token=TOKEN, node="n"),
    )
    told = WorkerSettings(listen="127.0.0.1:0", node="node-1", **settings)
    return WorkerSpec(settings=told, config=config, id=name, master=master, token=TOKEN)


@dataclass
class Running:
    """A master inside the event loop of a test."""

    cluster: Cluster
    server: Server
    url: str

    def client(self, token: SecretStr | None = TOKEN) -> ControlClient:
        return ControlClient(self.url, token)


@contextlib.asynccontextmanager
async def running_master(folder: Path, **settings: Any) -> AsyncIterator[Running]:
    spec = master_spec(folder, **settings)
    cluster = Cluster(rules_of(spec), ListingEngine(spec.config))
    api = Api(cluster, web=True)
    server = api.server = Server(api.endpoints(), spec.token)
    await cluster.open()
    try:
        port = await server.start("127.0.0.1", 0)
        yield Running(cluster, server, f"http://127.0.0.1:{port}")
    finally:
        await server.close()
        await cluster.close()


def with_master(
    folder: Path, test: Callable[[Running, ControlClient], Awaitable[None]], **settings: object
) -> None:
    """Runs a test beside a master of its own, with a client that has the whole token."""

    async def go() -> None:
        async with running_master(folder, **settings) as master, master.client() as client:
            await test(master, client)

    asyncio.run(go())


async def until(is_so: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    """Inside an event loop: returns once it is so."""
    async with asyncio.timeout(120):
        while True:
            answer = is_so()
            if await answer if asyncio.iscoroutine(answer) else answer:
                return
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def impostor(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """Something else than a master that answers in its place; its URL."""
    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def heartbeat(name: str = "w1", **fields: Any) -> Heartbeat:
    told = {
        "id": name,
        "incarnation": 1,
        "address": f"10.0.0.1:{8000 + sum(name.encode())}",
        "node": f"node-of-{name}",
        "capacity_bytes": 1 << 30,
        "dataset": fingerprint(ORIGINS),
        **fields,
    }
    return Heartbeat.model_validate(told)


@contextlib.contextmanager
def role_process(role: str, spec: ProcessSpec, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A role as a process, killed at the end if it has not ended by then."""
    descriptor = spec.to_descriptor()
    paths = [str(SUPPORT), *[path for path in sys.path if path.endswith("src")]]
    try:
        with log.open("ab") as stream:
            process = subprocess.Popen(
                [sys.executable, str(SUPPORT / "role_process.py"), role, str(descriptor)],
                pass_fds=[descriptor],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
    finally:
        os.close(descriptor)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def fetch(url: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=60) as answer:
        body: bytes = answer.read()
        return body


def status_of(url: str, token: SecretStr | None = TOKEN) -> dict[str, Any]:
    """The status that a master tells a member; its numbers alone without a token."""

    async def ask() -> dict[str, Any]:
        async with ControlClient(url, token) as client:
            return await client.status()

    return asyncio.run(ask())


def wait_for(what: str, is_so: Any, timeout_s: float = 120.0) -> Any:
    """The first answer of `is_so` that is true; errors of connections count as no."""
    deadline = time.monotonic() + timeout_s
    no = (
        urllib.error.URLError,
        http.client.HTTPException,
        ConnectionError,
        OriginUnreachableError,
        DeadlineError,
    )
    while time.monotonic() < deadline:
        with contextlib.suppress(*no):
            if answer := is_so():
                return answer
        time.sleep(0.02)
    raise TimeoutError(f"waited for {what}")
