"""What tests of living datasets share: a backend with three nodes, a bucket, declarations, and programs that read all
the time.
"""

from __future__ import annotations

import ipaddress
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.local.layout import BackendLayout
from headrace.local.protocol.client import LocalClient
from headrace.local.protocol.messages import RoleLine
from headrace.netns.namespaces import can_make_namespaces
from headrace.testing.buckets import put_object
from headrace.testing.network import LoopbackLink
from headrace.testing.s3_server import S3Server

from .harness import Shell

DEADLINE_S = 120.0
KINDS = ("AlluxioRuntime", "JindoRuntime")
A = "{mountPoint: 's3://data/a', name: a}"
B = "{mountPoint: 's3://data/b', name: b}"
ELSEWHERE = B.replace("data/b", "data/cold")
SECRET = """apiVersion: v1
kind: Secret
metadata: {{name: keys, namespace: {namespace}}}
stringData:
  aws.accessKeyId: {key}
  aws.secretKey: {secret}
"""
DATASET = """apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  placement: Shared
  mounts: {mounts}
  sharedOptions:
    alluxio.underfs.s3.endpoint: {endpoint}
    alluxio.underfs.s3.disable.dns.buckets: "true"
    aws.region: us-east-1
  sharedEncryptOptions:
    - name: aws.accessKeyId
      valueFrom: {{secretKeyRef: {{name: keys, key: aws.accessKeyId}}}}
    - name: aws.secretKey
      valueFrom: {{secretKeyRef: {{name: keys, key: aws.secretKey}}}}
"""
RUNTIME = """apiVersion: data.fluid.io/v1alpha1
kind: AlluxioRuntime
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  replicas: {workers}
  data: {{replicas: {copies}}}
  tieredstore:
    levels: {levels}
"""


def declared(
    server: S3Server,
    cache: Path,
    *,
    mounts: str,
    name: str = "living",
    namespace: str = "default",
    workers: int = 2,
    copies: int = 1,
    levels: str | None = None,
) -> str:
    """The YAML of a dataset of a bucket, with its runtime and the Secret of its keys."""
    keys = server.credentials
    names = {"name": name, "namespace": namespace}
    texts = (
        SECRET.format(key=keys.access_key_id, secret=keys.secret_access_key, **names),
        DATASET.format(mounts=mounts, endpoint=server.endpoint, **names),
        RUNTIME.format(workers=workers, copies=copies, levels=levels or level(cache), **names),
    )
    return "---\n".join(texts)


def level(path: Path, quota: str = "64Mi", medium: str = "SSD") -> str:
    """One level of a tiered store, with room for everything."""
    return f'[{{mediumtype: {medium}, path: {path}, quota: {quota}, high: "0.99", low: "0.8"}}]'


class HostLink(LoopbackLink):
    """The server listens on this machine's own address on the switch of the virtual nodes."""

    def __init__(self, address: str) -> None:
        self.server_address = address


def same(folder: Path, source: Path) -> bool:
    """True when a folder of a mount holds what the bucket does. What does not yet, may fail to be read."""
    names = sorted(os.listdir(source))
    try:
        return sorted(os.listdir(folder)) == names and all(
            (folder / name).read_bytes() == (source / name).read_bytes() for name in names
        )
    except OSError:
        return False


@dataclass
class Backend:
    """A local backend, a bucket that its nodes reach, and the words to drive them."""

    folder: Path
    shell: Shell
    client: LocalClient

    def apply(self, *texts: str) -> None:
        """Applies YAML."""
        file = self.folder / "objects.yaml"
        file.write_text("---\n".join(texts))
        self.shell.must("apply", "-f", file)

    def object(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """An object as it is now."""
        listing = self.client.objects([kind], namespace=namespace)
        return next((each for each in listing.items if each["metadata"]["name"] == name), None)

    def status(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any]:
        """The status of an object; empty while it has none."""
        thing = self.object(kind, name, namespace)
        return (thing or {}).get("status") or {}

    def condition(self, name: str, kind: str, namespace: str = "default") -> dict[str, Any]:
        """One condition of a dataset; empty while there is none."""
        conditions = self.status("Dataset", name, namespace).get("conditions", [])
        return next((each for each in conditions if each["type"] == kind), {})

    def roles(self, name: str, namespace: str = "default") -> dict[str, RoleLine]:
        """What runs for a dataset, by the planner's name."""
        prefix = f"{namespace}.{name}."
        lines = [each for each in self.client.status().roles if each.state == "running"]
        return {each.id.removeprefix(prefix): each for each in lines if each.id.startswith(prefix)}

    def mountpoint(self, name: str, node: int = 1, namespace: str = "default") -> Path:
        """Where programs on a node see a dataset."""
        return self.folder / "state" / "local" / "nodes" / f"node-{node}" / "mounts" / namespace / name

    def eventually(self, what: Callable[[], object], name: str, namespace: str = "default") -> None:
        """Waits until it is so; else tells how the dataset stands."""
        deadline = time.monotonic() + DEADLINE_S
        while not what():
            if time.monotonic() > deadline:
                words = (f"describe dataset {name} -n {namespace}", f"logs {name} -n {namespace} --tail 40")
                raise AssertionError("\n".join(self.shell.run(*each.split()).talk for each in words))
            time.sleep(0.1)

    def is_bound(self, name: str, workers: int, namespace: str = "default") -> bool:
        """True when so many workers are ready, no more run, and the dataset has no complaint."""
        runtime = next(filter(None, (self.status(kind, name, namespace) for kind in KINDS)), {})
        running = [each for each in self.roles(name, namespace) if each.startswith("worker-")]
        return (
            self.status("Dataset", name, namespace).get("phase") == "Bound"
            and runtime.get("workerNumberReady") == len(running) == workers
            and self.condition(name, "Ready", namespace).get("status") == "True"
        )

    def kill_supervisor(self) -> None:
        """As `kill -9` does it."""
        os.kill(self.client.hello().pid, signal.SIGKILL)


@contextmanager
def backend(folder: Path, nodes: int = 3, *, plain: bool = False) -> Iterator[Backend]:
    """`headrace up` in a state folder of its own, and `down` however it ends."""
    home = folder / "home"
    (home / "run").mkdir(parents=True, mode=0o700)
    own = {"HEADRACE_STATE_DIR": str(folder / "state"), "HEADRACE_RUNTIME_DIR": str(home / "run")}
    shell = Shell(home, own)
    shell.must("up", "--nodes", str(nodes), *(["--plain"] if plain else []))
    try:
        yield Backend(folder, shell, LocalClient(BackendLayout(folder / "state" / "local")))
    finally:
        shell.must("down")


@contextmanager
def bucket(made: Backend) -> Iterator[S3Server]:
    """An S3 server that the virtual nodes reach."""
    subnet = json.loads(made.shell.must("status", "--local", "--json").stdout)["network"]
    address = str(ipaddress.ip_network(subnet)[-2]) if can_make_namespaces() else "127.0.0.1"
    with S3Server(made.folder / "objects", state=made.folder / "server", link=HostLink(address)) as server:
        yield server


def replaced(made: Backend, before: Mapping[str, RoleLine], *names: str) -> bool:
    """True when other processes run as these roles, or all, of the dataset `living` than before."""
    now = made.roles("living")
    return all(name in now and now[name].pid != before[name].pid for name in names or before)


def fill(server: S3Server) -> None:
    """Six objects in each of three folders of the bucket."""
    folder = server.bucket_folder("data")
    for name in (f"{where}/part-{number}.bin" for where in ("a", "b", "cold") for number in range(6)):
        size = 900_000 + len(name) * 4099 + int(name[-5]) * 70_001
        put_object(folder, name, random.Random(name).randbytes(size))


def begin(made: Backend, server: S3Server) -> Path:
    """The dataset `living` with one mount and two workers; where node 1 sees it."""
    made.apply(declared(server, made.folder / "cache", mounts=f"[{A}]"))
    mounted = made.mountpoint("living")
    # The test before may have left another bucket's folder of that name: bound, with files of the same names.
    source = server.bucket_folder("data") / "a"
    made.eventually(lambda: same(mounted / "a", source) and os.listdir(mounted) == ["a"], "living")
    made.eventually(lambda: made.is_bound("living", 2), "living")
    return mounted
