"""A whole cluster on a bed: a bucket on the storage node, a master, and on each node a worker and a mount.

Everything is a real process, started by the commands that a person would type. Only `words` knows the names of the
commands.
"""

from __future__ import annotations

import json
import os
import ssl
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from headrace.control.outlooks import epoch_of, last_outlook
from headrace.engine.registry import Registry
from headrace.process.stat import process_tree
from headrace.settings.environment import Environment
from headrace.testing.cluster import words
from headrace.testing.cluster.bed import Bed, Capability
from headrace.testing.cluster.certificates import make_authority, make_certificate
from headrace.testing.cluster.content import Content
from headrace.testing.cluster.folders import mountpoints_below, unmount
from headrace.testing.cluster.node import Node, ServerPlace
from headrace.testing.cluster.reading import Reading
from headrace.testing.counting_proxy import FetchLog
from headrace.testing.processes import ServerProcess
from headrace.testing.s3_server import S3Server

BUCKET = "data"
START_TIMEOUT_S = 120.0
POLL_INTERVAL_S = 0.1
ANSWER_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Rules:
    """How the cluster is told to behave. Times are short: tests wait for them."""

    replicas: int = 1
    block_size: str = "1Mi"
    quota: str = "1Gi"
    heartbeat_interval_s: float = 0.5
    dead_after_s: float = 3.0
    read_deadline_s: float = 60.0
    with_tls: bool = False
    """Between readers and workers."""
    with_https: bool = False
    """At the master; only together with `with_tls`, whose authority signs for it."""
    counts_objects: bool = True
    """A proxy of Python stands before the bucket and counts: exact, and too slow to be measured."""
    worker: Mapping[str, Any] = field(default_factory=dict)
    """More settings of every worker."""
    origin: Mapping[str, str] = field(default_factory=dict)
    """More options of the bucket."""
    mount: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OriginBytes:
    """The bytes that the storage gave so far. `objects` is exact and counts no listing; `link` has all headers, too."""

    objects: int | None
    link: int | None


class CommandError(RuntimeError):
    """A command of a test ended with an error; the message holds its words."""


class ClusterBed:
    """The processes of one cluster. `start()` brings all of them up; each can be started and ended alone."""

    def __init__(self, bed: Bed, rules: Rules | None = None, *, bucket: Path | None = None) -> None:
        """Takes the bed over: it is closed with the cluster. The bucket is up: empty, or a folder of objects."""
        self.bed = bed
        self.rules = rules or Rules()
        self.content = Content()
        self.workers: dict[str, ServerProcess] = {}
        self.mounts: dict[str, ServerProcess] = {}
        self.master: ServerProcess | None = None
        self._earlier: dict[str, float] = {}
        """By node: a moment before its worker was last started, in seconds since 1970."""
        # Namespaces in JindoFS' own file take the place of the bucket here, and variables that of our files.
        self.properties: Path | None = None
        self.fetched = FetchLog(bed.storage.folder / "fetches") if self.rules.counts_objects else None
        try:
            self.control = bed.add_node("master")
            self.server = S3Server(
                bed.storage.folder / "buckets",
                state=bed.storage.log_folder,
                link=ServerPlace(bed.storage, log=self.fetched),
                count_requests=False,
            )
            if bucket is not None:
                self.server.link_bucket(BUCKET, bucket)
            self.bucket = self.server.root / BUCKET
            self.bucket.mkdir(exist_ok=True)
            self.token_file = self.write_secret("token", "test-token-0123456789abcdef\n")
            self._keys = self.write_secret("keys", words.secret_text(*self._key_pair()))
            self.certificates = bed.folder / "certificates"
            if self.rules.with_tls:
                make_authority(self.certificates)
                make_certificate(self.certificates, self.control.name, self.control.address)
        except BaseException:
            bed.close()
            raise

    # --- the whole ---

    def start(self) -> None:
        """The master, then all workers, then all mounts; returns when everything is ready."""
        self.start_master()
        for node in self.bed.nodes:
            self.start_worker(node, wait=False)
        self.wait_for_workers(self.bed.nodes)
        for node in self.bed.nodes:
            self.start_mount(node, wait=False)
        for node in self.bed.nodes:
            self.wait_for_mount(node)

    def grow(self, count: int) -> Sequence[Node]:
        """More nodes, each with a worker and a mount; returns when all of them take part."""
        joined = self.bed.add_nodes(count)
        for node in joined:
            self.start_worker(node, wait=False)
        self.wait_for_workers(joined)
        for node in joined:
            self.start_mount(node)
        return joined

    def fill(self, files: Mapping[str, bytes]) -> None:
        """Puts objects into the bucket. A master that runs must be told to look again."""
        self.content.put(self.bucket, files)

    def close(self) -> None:
        """Ends everything. Safe to call twice."""
        self.bed.close()

    # --- the roles ---

    @property
    def master_url(self) -> str:
        return words.master_url(self.control.address, with_tls=self.rules.with_https)

    def origins(self) -> list[words.OriginWords]:
        options = {"endpoint": self.server.endpoint, "path-style": "true", "region": self.server.region}
        options |= self.rules.origin
        return [words.OriginWords(f"s3://{BUCKET}", options, self._keys)]

    def start_master(self, **changes: Any) -> ServerProcess:
        """Returns when it answers with a snapshot."""
        settings = words.master_settings(
            self.control.address, self.control.state_folder / "master", self.token_file, self.origins()
        )
        rules = {
            "replicas": self.rules.replicas,
            "block_size": self.rules.block_size,
            "heartbeat_interval_s": self.rules.heartbeat_interval_s,
            "dead_after_s": self.rules.dead_after_s,
        }
        if self.rules.with_tls:
            rules |= words.tls_settings(self.certificates, None)
        if self.rules.with_https:
            rules |= words.https_settings(self.certificates, self.control.name)
        self.master = self._run(self.control, "master", {**settings, **rules, **changes})
        self.wait_for("a master with a snapshot", lambda status: status.files > 0 or not self.content.sizes)
        return self.master

    def start_worker(self, node: Node, *, wait: bool = True, **changes: Any) -> ServerProcess:
        """`changes` are settings that differ from the others'."""
        settings = words.worker_settings(
            node.name,
            node.address,
            node.state_folder / "worker",
            token=self.token_file,
            master=self.master_url,
            cache=[f"{node.cache_folder}:{self.rules.quota}"],
            origins=self.origins(),
        )
        if self.rules.with_tls:
            make_certificate(self.certificates, node.name, node.address)
            settings = {**settings, **words.tls_settings(self.certificates, node.name)}
        self._earlier[node.name] = time.time()
        process = self._run(node, "worker", {**settings, **self.rules.worker, **changes})
        self.workers[node.name] = process
        if wait:
            self.wait_for_workers([node])
        return process

    def start_mount(self, node: Node, *, wait: bool = True, **changes: Any) -> ServerProcess:
        """Mounts at `mountpoint(node)`."""
        self.mountpoint(node).mkdir(parents=True, exist_ok=True)
        settings = words.mount_settings(
            node.name,
            self.mountpoint(node),
            node.state_folder / "mount",
            token=self.token_file,
            master=self.master_url,
        )
        if self.rules.with_tls:
            settings = {**settings, **words.tls_settings(self.certificates, None)}
        rules = {"read_deadline_s": self.rules.read_deadline_s, **self.rules.mount}
        process = self._run(node, "mount", {**settings, **rules, **changes})
        self.mounts[node.name] = process
        if wait:
            self.wait_for_mount(node)
        return process

    def stop_mount(self, node: Node) -> None:
        """Politely, so that it unmounts."""
        self.mounts.pop(node.name).stop()
        if self.is_mounted(node):
            unmount(self.mountpoint(node))

    def mountpoint(self, node: Node) -> Path:
        return node.folder / "mnt"

    def node(self, number: int) -> Node:
        return self.bed.nodes[number]

    def worker(self, number: int) -> ServerProcess:
        return self.workers[self.node(number).name]

    def mount(self, number: int) -> ServerProcess:
        return self.mounts[self.node(number).name]

    # --- orders and questions ---

    def status(self) -> words.ClusterStatus:
        """The cluster as its master tells of it; CommandError when there is none."""
        try:
            headers = words.signed(self.token_file)
            return words.parse_status(fetch_text(words.status_url(self.master_url), self._authority, headers))
        except OSError as error:
            raise CommandError(f"the master does not answer: {error}") from error

    def worker_metrics(self, node: Node) -> dict[str, float]:
        """The metrics of a worker by their names, labels included."""
        return parse_metrics(fetch_text(words.worker_metrics_url(node.address)))

    def load(self, *paths: str, flags: Sequence[str] = ()) -> str:
        """Warms paths, all without any, to the end; what the command printed."""
        return self.must(words.load_command(self.master_url, self.token_file, paths, *flags))

    def drain(self, node: Node) -> None:
        """Lets a worker hand its blocks over and end; returns when it has ended."""
        process = self.workers[node.name]
        self.must(words.drain_command(self.master_url, self.token_file, node.name))
        del self.workers[node.name]
        wait_until(lambda: not process.is_running(), f"{node.name} to be drained", timeout_s=START_TIMEOUT_S)

    def must(self, command: Sequence[str]) -> str:
        """Runs a command beside the master; its output, or CommandError with its complaint."""
        done = self.control.call(command, environment=self._environment(self.control))
        if done.returncode != 0:
            talk = (done.stderr or done.stdout).strip()[-1000:]
            raise CommandError(f"`{' '.join(command[:3])}` ended with {done.returncode}: {talk}")
        return done.stdout

    def origin(self) -> OriginBytes:
        """The bytes that the storage has given since the bed was made."""
        objects = self.fetched.object_bytes() if self.fetched else None
        link = self.bed.storage.link_bytes().sent if Capability.LINKS in self.bed.capabilities else None
        return OriginBytes(objects, link)

    def origin_object_bytes(self) -> int:
        """Bytes of objects that the storage has given, exactly."""
        assert self.fetched is not None, "this cluster was made without a counting proxy"
        return self.fetched.object_bytes()

    def reading(self, node: Node, *flags: str, only: Sequence[str] = (), endless: bool = False) -> Reading:
        """A reader of this node's mount, in a process of its own; an `endless` one reads until it is told `enough`."""
        return Reading(node, self.mountpoint(node), *flags, only=only, endless=endless)

    def mount_processes(self, node: Node) -> list[int]:
        """The mount and what descends from it."""
        return process_tree(self.mounts[node.name].pid)

    # --- waiting ---

    def wait_for(
        self, what: str, is_so: Callable[[words.ClusterStatus], bool], *, timeout_s: float = START_TIMEOUT_S
    ) -> words.ClusterStatus:
        """The first status that satisfies; TimeoutError with the last one when none came in time."""
        seen: list[words.ClusterStatus | CommandError] = []

        def is_reached() -> bool:
            self._check_running()
            try:
                status = self.status()
            except CommandError as error:
                seen.append(error)
                return False
            seen.append(status)
            return is_so(status)

        try:
            wait_until(is_reached, what, timeout_s=timeout_s)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; last: {seen[-1]}") from None
        last = seen[-1]
        assert isinstance(last, words.ClusterStatus)
        return last

    def wait_for_workers(self, nodes: Sequence[Node]) -> None:
        """Waits until all of them take part, by the processes started last, and all members have heard of it."""
        names = {node.name for node in nodes}

        def have_joined(status: words.ClusterStatus) -> bool:
            return (
                names <= status.active()
                and all(status.workers[name].started_at_s >= self._earlier[name] for name in names)
                and self._all_go_by(status)
            )

        self.wait_for(f"the workers {sorted(names)}", have_joined)

    def _all_go_by(self, status: words.ClusterStatus) -> bool:
        """A member hears of a view a moment later, and before that asks nobody whom only that view lists."""
        running = {name for name, worker in self.workers.items() if worker.is_running()}
        workers = [node for node in self.bed.nodes if node.name in status.active() & running]
        mounted = {name for name, mount in self.mounts.items() if mount.is_running()}
        mounts = [node for node in self.bed.nodes if node.name in mounted]
        epochs = [*map(self._epoch_of, workers), *map(self._epoch_of_mount, mounts)]
        return all(epoch >= status.epoch for epoch in epochs)

    def _epoch_of(self, node: Node) -> float:
        try:
            return self.worker_metrics(node).get(words.EPOCH_METRIC, 0.0)
        except OSError:
            return 0.0

    def _epoch_of_mount(self, node: Node) -> int:
        return epoch_of(last_outlook(node.state_folder / "mount"))

    def wait_for_serving(self, node: Node) -> None:
        """Waits until a worker answers its peers, by its own word: for a cluster whose master cannot say."""

        def serves() -> bool:
            try:
                return bool(self.worker_metrics(node))
            except OSError:
                return False

        # A worker's page comes up after its peers' port, and went down with the process before it.
        self.workers[node.name].wait_until(serves, timeout_s=START_TIMEOUT_S)

    def wait_for_mount(self, node: Node) -> None:
        # The kernel shows the mount a little before its process registers it.
        registry = Registry(Environment(self._environment(node)).runtime_directory)
        mountpoint = str(self.mountpoint(node))
        self.mounts[node.name].wait_until(
            lambda: self.is_mounted(node) and registry.find(mountpoint) is not None, timeout_s=START_TIMEOUT_S
        )

    def _check_running(self) -> None:
        if self.master is not None and not self.master.is_running():
            raise RuntimeError(f"the master ended with {self.master.exit_code}: {self.master.log_tail()}")

    def is_mounted(self, node: Node) -> bool:
        return self.mountpoint(node) in mountpoints_below(self.mountpoint(node))

    # --- files and processes ---

    def _run(self, node: Node, role: str, settings: Mapping[str, Any]) -> ServerProcess:
        environment = self._environment(node)
        if self.properties is None:
            config = self._write_config(f"{role}-{node.name}", settings)
        else:
            config, environment = self.properties, environment | words.as_environment(role, settings)
        command = words.role_command(role, config)
        if role == "mount":
            command = words.mount_command(config)
        return node.run(command, name=role, environment=environment)

    def _environment(self, node: Node) -> dict[str, str]:
        """A home of the node's own: nothing of this machine's clouds or caches leaks in."""
        run = node.folder / "run"
        run.mkdir(mode=0o700, exist_ok=True)
        own = {"HOME": str(node.folder), "XDG_RUNTIME_DIR": str(run), **words.PROCESS_ENVIRONMENT}
        # For commands; the roles have it in their settings.
        return own | (
            {"SSL_CERT_FILE": str(self._authority)} if node is self.control and self._authority else {}
        )

    @property
    def _authority(self) -> Path | None:
        return self.certificates / "authority.pem" if self.rules.with_https else None

    def _write_config(self, name: str, settings: Mapping[str, Any]) -> Path:
        # JSON is YAML, and needs no library here.
        path = self.bed.folder / f"{name}.yaml"
        path.write_text(json.dumps(settings, indent=2) + "\n")
        return path

    def write_secret(self, name: str, text: str) -> Path:
        path = self.bed.folder / name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        return path

    def _key_pair(self) -> tuple[str, str]:
        keys = self.server.credentials
        return keys.access_key_id, keys.secret_access_key

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def wait_until(is_so: Callable[[], bool], what: str, *, timeout_s: float) -> None:
    """TimeoutError that names what was waited for."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:g} s for {what}")
        time.sleep(POLL_INTERVAL_S)


def fetch_text(url: str, authority: Path | None = None, headers: Mapping[str, str] | None = None) -> str:
    """A page of a node, straight; OSError when there is none."""
    context = ssl.create_default_context(cafile=authority) if authority else None
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    opener.addheaders = list((headers or {}).items())
    with opener.open(url, timeout=ANSWER_TIMEOUT_S) as answer:
        return str(answer.read().decode())


def parse_metrics(text: str) -> dict[str, float]:
    """Every sample of a page of metrics."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
