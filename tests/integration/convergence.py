"""A random walk over the whole local backend: what people declare and what dies, and the world beside it afterwards.

`walk` is the whole of it. The same without processes, and many times faster:
`tests/unit/plan/test_convergence_model.py`.
"""

from __future__ import annotations

import ipaddress
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from headrace.local.processes.process_tags import tagged_processes
from headrace.netns.gateway import can_lead_out
from headrace.netns.namespaces import can_make_namespaces, namespaces
from headrace.roles.mountpoint.detaching import mountpoints_below
from headrace.testing.buckets import put_object
from headrace.testing.network import LoopbackLink
from headrace.testing.s3_server import S3Server

from .harness import Shell
from .real_backend import NODES, Key, RealWorld, Storage, Wanted

KEYS: tuple[Key, ...] = (("default", "imagenet"), ("default", "corpus"), ("team", "imagenet"))
KINDS = {"dataset": "Dataset", "alluxioruntime": "AlluxioRuntime"}
PARTS = ("images", "text", "bucket")
QUIET_S = 150.0
STAYS_QUIET_S = 1.5


def walk(folder: Path, seed: int, bursts: Iterable[int]) -> None:
    """Walks over a backend in this folder, and sees that nothing is left of it."""
    with world_backend(folder) as shell, world_storage(shell, folder) as storage:
        world = RealWorld(folder / "state", folder / "caches", storage)
        walk = Walk(world, shell, seed)
        try:
            world.set_secret("default", 1)
            walk.declare()
            for number in bursts:
                walk.burst(number)
        finally:
            world.thaw()
        shell.must("down")
        assert left_behind(world, folder) == []


class Walk:
    """One walk: what is done next follows from the seed and the model alone."""

    def __init__(self, world: RealWorld, shell: Shell, seed: int) -> None:
        self.world, self.shell = world, shell
        self.random = random.Random(seed)
        self.start = time.monotonic()

    def burst(self, number: int) -> None:
        """Some actions, a moment apart or at once, and then quiet."""
        for _ in range(self.random.randint(1, 4)):
            self.act()
            time.sleep(self.random.choice((0.0, 0.0, 0.3, 1.0, 2.5)))
        self.world.thaw()
        self.quiet(f"after burst {number}")

    def act(self) -> None:
        """One action."""
        actions: tuple[Callable[[], str], ...] = (
            self.declare, self.declare, self.change, self.change, self.change, self.delete,
            self.kill_a_role, self.kill_a_role, self.stop_a_role, self.kill_the_supervisor, self.change_secret,
        )  # fmt: skip
        say(f"  {time.monotonic() - self.start:6.1f} s  {self.random.choice(actions)()}")

    def declare(self) -> str:
        key = self.random.choice(KEYS)
        wanted = Wanted(self._parts(), self.random.randint(1, NODES), on_ssd=self.random.random() < 0.3)
        present = self.world.model.datasets.get(key)
        if present is not None:
            # One half of it may have been deleted: it is declared again, once the old one is gone.
            wanted = replace(present, has_dataset=True, has_runtime=True)
        self._wait_until_gone(key)
        self.world.declare(key, wanted)
        return f"declare {key}: {wanted}"

    def change(self) -> str:
        known = self.world.model.datasets
        if not known:
            return self.declare()
        key = self.random.choice(sorted(known))
        change = self.random.choice(
            (
                {"replicas": self.random.randint(0, NODES)},
                {"replicas": self.random.randint(1, NODES)},
                {"parts": self._parts()},
                {"quota_mib": self.random.choice((32, 64, 96))},
                {"on_ssd": self.random.random() < 0.5},
                {"label": self.random.choice("abc")},
            )
        )
        self.world.declare(key, replace(known[key], **change))  # type: ignore[arg-type]
        return f"change {key}: {change}"

    def delete(self) -> str:
        known = self.world.model.datasets
        if not known:
            return "delete nothing"
        key = self.random.choice(sorted(known))
        dataset, runtime = self.random.choice(((True, True), (True, True), (True, False), (False, True)))
        self.world.delete(key, dataset=dataset, runtime=runtime)
        return f"delete {key}: dataset {dataset}, runtime {runtime}"

    def kill_a_role(self) -> str:
        return f"SIGKILL {self.world.strike(self.random.random(), signal.SIGKILL)}"

    def stop_a_role(self) -> str:
        return f"SIGSTOP {self.world.strike(self.random.random(), signal.SIGSTOP)}"

    def kill_the_supervisor(self) -> str:
        self.world.kill_supervisor()
        time.sleep(self.random.choice((0.0, 0.5)))
        self.shell.must("up")
        return "SIGKILL supervisor, and up"

    def change_secret(self) -> str:
        namespace = self.random.choice(("default", "team"))
        if namespace in self.world.model.secrets and self.random.random() < 0.3:
            self.world.drop_secret(namespace)
            return f"drop the Secret of {namespace}"
        version = self.random.randint(1, 9)
        self.world.set_secret(namespace, version)
        return f"Secret of {namespace}: version {version}"

    def quiet(self, when: str) -> None:
        """Waits until the world is as declared, and sees that it stays so."""
        deadline, told = time.monotonic() + QUIET_S, ""
        while faults := self._faults():
            if faults[0] != told:
                told = faults[0]
                say(f"  {time.monotonic() - self.start:6.1f} s    {told}")
            if time.monotonic() > deadline:
                raise AssertionError(f"{when}, not as declared:\n" + "\n".join(faults) + self._told())
            time.sleep(0.3)
        time.sleep(STAYS_QUIET_S)
        faults = self._faults()
        assert not faults, f"{when}, as declared only for a moment:\n" + "\n".join(faults) + self._told()
        say(f"  {time.monotonic() - self.start:6.1f} s  quiet {when}")

    def _faults(self) -> list[str]:
        return self.world.faults()

    def _told(self) -> str:
        log = self.world.places.log.read_text(errors="replace")[-6000:]
        return f"\n{self.shell.run('get', 'dataset,alluxioruntime', '-A', '-o', 'wide').talk}\n{log}"

    def _parts(self) -> tuple[str, ...]:
        return tuple(sorted(self.random.sample(PARTS, self.random.randint(1, 2))))

    def _wait_until_gone(self, key: Key) -> None:
        """What is being deleted cannot be declared."""
        for word, kind in KINDS.items():
            words = ("wait", "--for=delete", f"{word}/{key[1]}", "-n", key[0], "--timeout", "100s")
            found = self.world.client.objects([kind], namespace=key[0]).items
            if any(
                each["metadata"]["name"] == key[1] and "deletionTimestamp" in each["metadata"]
                for each in found
            ):
                self.world.thaw()
                self.shell.must(*words)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@contextmanager
def world_backend(folder: Path) -> Iterator[Shell]:
    """`headrace up`, some of its nodes with a label."""
    home = folder / "home"
    (home / "run").mkdir(parents=True, mode=0o700)
    own = {"HEADRACE_STATE_DIR": str(folder / "state"), "HEADRACE_RUNTIME_DIR": str(home / "run")}
    shell = Shell(home, own)
    labels = [word for node in ("node-1:disk=ssd", "node-2:disk=ssd") for word in ("--node-label", node)]
    shell.must("up", "--nodes", str(NODES), *labels)
    try:
        yield shell
    finally:
        shell.must("down")


@contextmanager
def world_storage(shell: Shell, folder: Path) -> Iterator[Storage]:
    """Two folders and a bucket, from where datasets have their files."""
    chance = random.Random(7)
    content = {part: {f"{part}/{n}.bin": chance.randbytes(70_000 + n) for n in range(3)} for part in PARTS}
    for part in ("images", "text"):
        for name, data in content[part].items():
            path = folder / "data" / part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    subnet = json.loads(shell.must("status", "--local", "--json").stdout)["network"]
    link = LoopbackLink()
    if can_make_namespaces():
        link.server_address = str(ipaddress.ip_network(subnet)[-2])
    with S3Server(folder / "objects", state=folder / "server", link=link) as server:
        for name, data in content["bucket"].items():
            put_object(server.bucket_folder("data"), name, data)
        keys = server.credentials
        yield Storage(
            folder / "data", server.endpoint, keys.access_key_id, keys.secret_access_key, content["bucket"]
        )


def left_behind(world: RealWorld, folder: Path) -> list[str]:
    """What `down` should have taken away."""
    found = [f"process {each.pid}" for each in tagged_processes(world.instance)]
    found += mountpoints_below(str(folder))
    found += [str(path) for path in (world.places.folder, world.caches) if path.exists()]
    if can_make_namespaces():
        found += [name for name in namespaces() if world.instance in name]
        devices = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
        found += [line for line in devices.splitlines() if world.instance in line]
    if can_make_namespaces() and can_lead_out():
        tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout
        found += [line for line in tables.splitlines() if world.instance in line]
    return found
