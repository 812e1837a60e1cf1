"""A local backend with many datasets: declared, watched until their statuses are true, left alone, changed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from headrace.local.layout import BackendLayout
from headrace.local.lifecycle import launch
from headrace.local.lifecycle.teardown import tear_down
from headrace.local.processes.process_tags import tagged_processes
from headrace.local.protocol.client import LocalClient
from headrace.local.protocol.messages import Declaration, Named, NodesWish, Scaling
from headrace.settings.environment import Environment
from headrace.testing.processes import processor_seconds

NODES = 3
NAMESPACES = 10
LOOK_S = 0.25
LOOK_AT_ONE_S = 0.002
RUNTIME = "AlluxioRuntime"


class Backend:
    """A backend of its own below a folder, and what is measured of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places = BackendLayout(folder / "local")
        self.client = LocalClient(self.places)

    @property
    def supervisor(self) -> int:
        return self.client.hello().pid

    def declare(self, objects: Sequence[dict[str, Any]]) -> None:
        for outcome in self.client.declare(Declaration(verb="apply", objects=tuple(objects))):
            if outcome.fault is not None:
                raise OSError(outcome.fault.message)

    def delete(self, objects: Sequence[dict[str, Any]]) -> None:
        """Returns when all are gone."""
        self.client.delete([_named(each) for each in objects])
        self.wait(lambda: not self.client.objects(["Dataset", RUNTIME]).items, limit_s=600)

    def wait(self, done: Callable[[], bool], *, limit_s: float, look_s: float = LOOK_S) -> None:
        """Raises `TimeoutError`, which is an `OSError`, when it takes too long."""
        deadline = time.monotonic() + limit_s
        while not done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not done after {limit_s:g} s")
            time.sleep(look_s)

    def reasons(self) -> list[str]:
        """Why each dataset is not ready."""
        items = self.client.objects(["Dataset"]).items
        conditions = (item.get("status", {}).get("conditions", ()) for item in items)
        return [next((c["reason"] for c in each if c["type"] == "Ready"), "") for each in conditions]

    def mounted(self) -> int:
        """How many datasets are Bound and have a mount that answers."""
        items = self.client.objects([RUNTIME]).items
        return sum(item.get("status", {}).get("fuseNumberReady", 0) > 0 for item in items)

    def scale(self, thing: dict[str, Any], replicas: int) -> float:
        """Seconds until the status of one runtime tells of another number of workers."""
        named, start = _named(thing), time.perf_counter()
        self.client.scale(Scaling(object=named, replicas=replicas))

        def told() -> bool:
            (item,) = self.client.objects([RUNTIME], namespace=named.namespace, names=[named.name]).items
            return bool(item.get("status", {}).get("desiredWorkerNumberScheduled") == replicas)

        self.wait(told, limit_s=60, look_s=LOOK_AT_ONE_S)
        return time.perf_counter() - start

    def seconds_of(self, *command: str) -> float:
        """How long a command of a person takes."""
        start = time.perf_counter()
        program = [sys.executable, "-P", "-m", "headrace.cli.main", *command]
        own = {**os.environ, "HEADRACE_STATE_DIR": str(self.folder)}
        subprocess.run(program, env=own, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - start

    def roles(self) -> dict[str, list[int]]:
        """The processes of all roles by their kind."""
        found: dict[str, list[int]] = {}
        for process in tagged_processes(self.client.hello().instance):
            kind = process.role.rpartition(".")[2].partition("-")[0]
            found.setdefault(kind, []).append(process.pid)
        return found


@contextlib.contextmanager
def running_backend(folder: Path) -> Iterator[Backend]:
    """One that is up, and taken down whatever happens."""
    backend = Backend(folder)
    (folder / "run").mkdir(parents=True, mode=0o700)
    own = {"HEADRACE_STATE_DIR": str(folder), "HEADRACE_RUNTIME_DIR": str(folder / "run")}
    environment = Environment({**os.environ, **own})
    try:
        launch.bring_up(backend.places, NodesWish(count=NODES), environment, release="benchmark")
        yield backend
    finally:
        launch.stop(backend.places)
        tear_down(backend.places, keep_caches=False, wait_s=30)


def waiting_dataset(number: int) -> list[dict[str, Any]]:
    """A dataset that no node matches, and its runtime: planned in full, and nothing runs."""
    terms = [{"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["none"]}]}]
    spec = {
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        "mounts": [
            {"mountPoint": f"s3://bucket/{number}", "name": "data", "options": {"aws.region": "us-east-1"}}
        ],
    }
    level = {"mediumtype": "MEM", "path": "/dev/shm", "quota": "64Mi"}
    runtime = {"replicas": 1, "master": {"nodeSelector": {"gpu": "none"}}, "tieredstore": {"levels": [level]}}
    return [_object("Dataset", number, spec), _object(RUNTIME, number, runtime)]


def served_dataset(number: int, data: Path, cache: Path) -> list[dict[str, Any]]:
    """A dataset of a local folder, with one worker and its mount."""
    spec = {"placement": "Shared", "mounts": [{"mountPoint": f"local://{data}", "name": "data"}]}
    level = {"mediumtype": "SSD", "path": str(cache), "quota": "64Mi"}
    runtime = {"replicas": 1, "tieredstore": {"levels": [level]}}
    return [_object("Dataset", number, spec), _object(RUNTIME, number, runtime)]


def memory_mib(pids: Sequence[int]) -> float:
    """What processes have for themselves, and their share of what they share."""
    kib = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
            kib += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kib / 1024


def processor_percent(pids: Sequence[int], seconds: float) -> float:
    """What they use of one processor while nothing happens."""
    before, start = processor_seconds(pids), time.perf_counter()
    time.sleep(seconds)
    return 100 * (processor_seconds(pids) - before) / (time.perf_counter() - start)


def _named(thing: dict[str, Any]) -> Named:
    metadata = thing["metadata"]
    return Named(kind=thing["kind"], namespace=metadata["namespace"], name=metadata["name"])


def _object(kind: str, number: int, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": f"set-{number}", "namespace": f"team-{number % NAMESPACES}"}
    return {"apiVersion": "data.fluid.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
