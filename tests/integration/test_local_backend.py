"""The seeds' YAML on the local backend: applied, Bound, read through the mounts of two virtual nodes, deleted."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.local.layout import BackendLayout
from headrace.local.protocol.client import LocalClient
from headrace.netns.namespaces import can_make_namespaces, namespaces
from headrace.testing.buckets import put_object
from headrace.testing.made_files import MadeFiles
from headrace.testing.network import LoopbackLink
from headrace.testing.s3_server import S3Server

from .harness import Shell

DEADLINE_S = 120.0
FILES = MadeFiles(
    {f"train/part-{number}.bin": partial(os.urandom, 3_000_000 + number) for number in range(4)}
)
# Seed 000 with an S3 server of this machine instead of OSS, two workers instead of four.
YAML = """apiVersion: v1
kind: Secret
metadata:
  name: mysecret
stringData:
  aws.accessKeyId: {key}
  aws.secretKey: {secret}
---
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata:
  name: imagenet
spec:
  mounts:
    - mountPoint: s3://data/train
      options:
        alluxio.underfs.s3.endpoint: {endpoint}
        alluxio.underfs.s3.disable.dns.buckets: "true"
        aws.region: us-east-1
      name: imagenet
      encryptOptions:
        - name: aws.accessKeyId
          valueFrom:
            secretKeyRef:
              name: mysecret
              key: aws.accessKeyId
        - name: aws.secretKey
          valueFrom:
            secretKeyRef:
              name: mysecret
              key: aws.secretKey
---
apiVersion: data.fluid.io/v1alpha1
kind: JindoRuntime
metadata:
  name: imagenet
spec:
  replicas: 2
  tieredstore:
    levels:
      - mediumtype: SSD
        path: {cache}
        quota: 64M
        high: "0.99"
        low: "0.8"
"""
LOAD = """apiVersion: data.fluid.io/v1alpha1
kind: DataLoad
metadata:
  name: warm
spec:
  dataset: {name: imagenet, namespace: default}
"""
BACKUP = """apiVersion: data.fluid.io/v1alpha1
kind: DataBackup
metadata:
  name: list
spec:
  dataset: imagenet
  backupPath: local://{folder}
"""
# Seed 003 with a folder of this machine in the place of the NFS server.
CLAIM = """apiVersion: v1
kind: PersistentVolume
metadata:
  name: nfs-imagenet
spec:
  capacity:
    storage: 150Gi
  accessModes:
    - ReadWriteMany
  hostPath:
    path: {folder}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: nfs-imagenet
spec:
  accessModes:
    - ReadWriteMany
  resources:
    requests:
      storage: 150Gi
---
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata:
  name: imagenet
spec:
  mounts:
    - mountPoint: pvc://nfs-imagenet
      name: nfs-imagenet
---
apiVersion: data.fluid.io/v1alpha1
kind: AlluxioRuntime
metadata:
  name: imagenet
spec:
  replicas: 1
  data:
    replicas: 1
  tieredstore:
    levels:
      - mediumtype: SSD
        path: {cache}
        quota: 64Mi
        high: "0.99"
        low: "0.8"
"""


KINDS = {
    "dataset": "Dataset",
    "jindoruntime": "JindoRuntime",
    "alluxioruntime": "AlluxioRuntime",
    "pvc": "PersistentVolumeClaim",
    "pv": "PersistentVolume",
}


class HostLink(LoopbackLink):
    """The server listens on this machine's own address on the switch of the virtual nodes."""

    def __init__(self, address: str) -> None:
        self.server_address = address


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """`headrace up --nodes 2` in a state folder of its own; `down` leaves nothing of it."""
    folder = tmp_path_factory.mktemp("backend")
    (folder / "home" / "run").mkdir(parents=True, mode=0o700)
    own = {"HEADRACE_STATE_DIR": str(folder / "state"), "HEADRACE_RUNTIME_DIR": str(folder / "home" / "run")}
    shell = Shell(folder / "home", own)
    shell.must("up", "--nodes", "2")
    instance = client_of(shell).hello().instance
    try:
        yield shell
    finally:
        shell.must("down")
    if can_make_namespaces():
        assert not [name for name in namespaces() if instance in name]


@pytest.fixture
def backend(lasting: Shell) -> Iterator[Shell]:
    """The same with nothing declared, before and after each test."""
    yield lasting
    for kind in ("dataset", "jindoruntime", "alluxioruntime", "pvc", "pv"):
        names = [each["metadata"]["name"] for each in client_of(lasting).objects([KINDS[kind]]).items]
        for name in names:
            lasting.must("delete", kind, name, "--ignore-not-found")
    eventually(lambda: roles(lasting) == {}, lasting)


@pytest.fixture
def storage(backend: Shell, tmp_path: Path) -> Iterator[S3Server]:
    """A bucket that the virtual nodes reach."""
    subnet = json.loads(backend.must("status", "--local", "--json").stdout)["network"]
    address = str(ipaddress.ip_network(subnet)[-2]) if can_make_namespaces() else "127.0.0.1"
    with S3Server(tmp_path / "objects", state=tmp_path / "server", link=HostLink(address)) as server:
        folder = server.bucket_folder("data")
        for name, content in FILES.items():
            put_object(folder, name, content)
        yield server


def tell(text: str) -> None:
    """For whoever reads the test's output."""
    sys.stdout.write(text)


def eventually(what: Callable[[], bool], shell: Shell) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        if time.monotonic() > deadline:
            told = [
                shell.run(*words.split()).talk for words in ("describe dataset imagenet", "logs imagenet")
            ]
            raise AssertionError("\n".join(told))
        time.sleep(0.1)


def apply(shell: Shell, text: str, tmp_path: Path) -> str:
    file = tmp_path / "objects.yaml"
    file.write_text(text)
    return shell.must("apply", "-f", file).stdout


def state_of(shell: Shell) -> Path:
    return Path(shell.environment["HEADRACE_STATE_DIR"]) / "local"


def client_of(shell: Shell) -> LocalClient:
    """Asks without a command, which takes longer to start than what is waited for."""
    return LocalClient(BackendLayout(state_of(shell)))


def status_of(shell: Shell, kind: str, name: str = "imagenet") -> dict[str, Any]:
    """The status of an object; empty while there is none."""
    things = client_of(shell).objects([kind], namespace="default").items
    found = next((each for each in things if each["metadata"]["name"] == name), {})
    return found.get("status") or {}


def phase(shell: Shell) -> str:
    return str(status_of(shell, "Dataset").get("phase", ""))


def mountpoints(shell: Shell) -> list[Path]:
    nodes = state_of(shell) / "nodes"
    return [nodes / f"node-{number}" / "mounts" / "default" / "imagenet" for number in (1, 2)]


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_a_dataset_is_bound_read_loaded_and_deleted(
    backend: Shell, storage: S3Server, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    keys = storage.credentials
    # Host and port alone, as in Fluid's own samples: asked without TLS, since there is none.
    endpoint = storage.endpoint.removeprefix("http://")
    text = YAML.format(key=keys.access_key_id, secret=keys.secret_access_key, endpoint=endpoint, cache=cache)
    # A setting of pods is named as one that has no effect here.
    apply(backend, text.replace("replicas: 2", "replicas: 2\n  worker: {env: {EXAMPLE: value}}"), tmp_path)
    eventually(lambda: phase(backend) == "Bound", backend)
    ignored = "spec.worker.env (here roles are processes, not pods)"
    eventually(lambda: ignored in str(status_of(backend, "JindoRuntime").get("conditions")), backend)
    tell(backend.must("get", "dataset").stdout)
    eventually(lambda: all(folder.is_mount() for folder in mountpoints(backend)), backend)

    expected = {Path(name).name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    for mountpoint in mountpoints(backend):
        assert digests(mountpoint / "imagenet") == expected

    apply(backend, LOAD, tmp_path)
    backend.must("wait", "--for=jsonpath={.status.phase}=Complete", "dataload/warm", "--timeout", "100s")
    cached = json.loads(backend.must("get", "dataset", "imagenet", "-o", "json").stdout)["status"]
    assert cached["cacheStates"]["cachedPercentage"] == "100.0%", "what a load says is told at once"
    tell(backend.must("get", "dataload").stdout)
    tell(backend.must("get", "pv,pvc").stdout)
    tell(backend.must("events").stdout)
    state = subprocess.run(
        ["grep", "-rl", keys.secret_access_key, state_of(backend) / "nodes"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert state.stdout == ""

    # As in Fluid, a dataset owns its runtime and its operations.
    backend.must("delete", "dataset", "imagenet")
    for thing in ("jindoruntime/imagenet", "dataload/warm"):
        backend.must("wait", "--for=delete", thing, "--timeout", "100s")
    assert not any(folder.exists() and folder.is_mount() for folder in mountpoints(backend))
    assert not cache.exists()
    assert not (state_of(backend) / "datasets" / "default.imagenet").exists()
    assert "imagenet" not in backend.must("get", "pv,pvc").talk
    status = json.loads(backend.must("status", "--local", "--json").stdout)
    assert status["roles"] == []


def roles(shell: Shell) -> dict[str, dict[str, Any]]:
    """What runs, by id."""
    lines = client_of(shell).status().roles
    return {line.id: line.model_dump(mode="json") for line in lines if line.state == "running"}


def test_kills_are_survived_and_a_used_mount_is_not_taken_away(
    backend: Shell, storage: S3Server, tmp_path: Path
) -> None:
    keys = storage.credentials
    names = {"key": keys.access_key_id, "secret": keys.secret_access_key, "endpoint": storage.endpoint}
    apply(backend, YAML.format(cache=tmp_path / "cache", **names), tmp_path)
    eventually(lambda: len(roles(backend)) == 5, backend)
    mountpoint = mountpoints(backend)[0]
    eventually(mountpoint.is_mount, backend)
    before = roles(backend)

    os.kill(client_of(backend).hello().pid, signal.SIGKILL)
    backend.must("up")
    assert {name: line["pid"] for name, line in roles(backend).items()} == {
        name: line["pid"] for name, line in before.items()
    }

    for role in ("worker-0", "mount-node-1", "master"):
        kill_role(backend, f"default.imagenet.{role}")
    eventually(mountpoint.is_mount, backend)
    eventually(lambda: ready_workers(backend) == 2, backend)
    expected = {Path(name).name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    assert digests(mountpoint / "imagenet") == expected

    with (mountpoint / "imagenet" / "part-0.bin").open("rb") as used:
        backend.must("delete", "dataset", "imagenet", "--no-wait")
        eventually(lambda: reason(backend, "Terminating") == "VolumeInUse", backend)
        assert f"process {os.getpid()}" in backend.must("describe", "dataset", "imagenet").stdout
        assert used.read(1) == FILES["train/part-0.bin"][:1]
    backend.must("wait", "--for=delete", "dataset/imagenet", "--timeout", "100s")
    assert not mountpoint.is_mount()


def kill_role(shell: Shell, role: str) -> None:
    """As `kill -9` does it; and waits until it runs again."""
    before = roles(shell)[role]["pid"]
    os.kill(before, signal.SIGKILL)
    eventually(lambda: roles(shell).get(role, {"pid": before})["pid"] != before, shell)


def ready_workers(shell: Shell) -> int:
    return int(status_of(shell, "JindoRuntime").get("workerNumberReady", 0))


def reason(shell: Shell, condition: str, name: str = "imagenet") -> str:
    """Why a condition of a dataset is as it is, in a word; empty when it has none of the kind."""
    conditions = status_of(shell, "Dataset", name).get("conditions", [])
    return next((each["reason"] for each in conditions if each["type"] == condition), "")


def test_scaling_hands_over_and_one_datasets_fault_is_its_own(
    backend: Shell, storage: S3Server, tmp_path: Path
) -> None:
    keys = storage.credentials
    names = {"key": keys.access_key_id, "secret": keys.secret_access_key, "endpoint": storage.endpoint}
    shared = YAML.replace("spec:\n  mounts", "spec:\n  placement: Shared\n  mounts")
    text = shared.format(cache=tmp_path / "cache", **names)
    broken = shared.format(cache=tmp_path / "other", **{**names, "secret": "wrong-" * 4})
    broken = broken.replace("imagenet", "broken").replace("mysecret", "othersecret")
    lacking = text.partition("---\n")[2].replace("imagenet", "lacking").replace("mysecret", "nobodys")
    alone = YAML.format(cache=tmp_path / "alone", **names).replace("imagenet", "alone")
    apply(backend, "---\n".join((text, broken, lacking)), tmp_path)
    eventually(lambda: phase(backend) == "Bound" and len(of(backend, "imagenet")) == 5, backend)
    # Only now: of two that are declared at once, the exclusive one may be the first to be given nodes.
    apply(backend, alone, tmp_path)
    eventually(lambda: reason(backend, "Ready", "broken") == "AccessDenied", backend)
    eventually(lambda: reason(backend, "Ready", "lacking") == "SecretMissing", backend)
    eventually(lambda: reason(backend, "Ready", "alone") == "NodesTaken", backend)

    apply(backend, LOAD, tmp_path)
    backend.must("wait", "--for=jsonpath={.status.phase}=Complete", "dataload/warm", "--timeout", "100s")
    backend.must("scale", "--replicas=1", "jindoruntime/imagenet")
    eventually(lambda: "default.imagenet.worker-1" not in of(backend, "imagenet"), backend)
    storage.stop()
    expected = {Path(name).name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    assert digests(mountpoints(backend)[0] / "imagenet") == expected
    for name in ("imagenet", "broken", "lacking", "alone"):
        backend.must("delete", "dataset", name)
        backend.must("wait", "--for=delete", f"jindoruntime/{name}", "--timeout", "100s")
    assert roles(backend) == {}
    tell(backend.must("events").stdout)


def of(shell: Shell, dataset: str) -> dict[str, dict[str, Any]]:
    """What runs for one dataset."""
    return {name: line for name, line in roles(shell).items() if line["dataset"] == dataset}


def test_a_backup_starts_a_dataset_whose_storage_is_away(
    backend: Shell, storage: S3Server, tmp_path: Path
) -> None:
    keys = storage.credentials
    names = {"key": keys.access_key_id, "secret": keys.secret_access_key, "endpoint": storage.endpoint}
    text = YAML.format(cache=tmp_path / "cache", **names)
    apply(backend, text + "---\n" + BACKUP.format(folder=tmp_path / "backup"), tmp_path)
    backend.must("wait", "--for=jsonpath={.status.phase}=Complete", "databackup/list", "--timeout", "100s")
    tell(backend.must("get", "databackup").stdout)
    for words in ("databackup list", "dataset imagenet", "jindoruntime imagenet"):
        backend.must("delete", *words.split(), "--ignore-not-found")

    storage.stop()
    place = f"{{path: 'local://{tmp_path / 'backup'}', nodeName: node-1}}"
    again = f"spec:\n  dataRestoreLocation: {place}\n  mounts"
    apply(backend, text.replace("spec:\n  mounts", again), tmp_path)
    eventually(lambda: phase(backend) == "Bound", backend)
    assert status_of(backend, "Dataset")["fileNum"] == str(len(FILES))
    eventually(mountpoints(backend)[0].is_mount, backend)
    assert {path.name for path in (mountpoints(backend)[0] / "imagenet").iterdir()} == {
        Path(name).name for name in FILES
    }


def test_a_claim_is_accelerated(backend: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "exported"
    folder.mkdir()
    (folder / "picture.jpg").write_bytes(FILES["train/part-0.bin"])
    apply(backend, CLAIM.format(folder=folder, cache=tmp_path / "cache"), tmp_path)
    eventually(lambda: phase(backend) == "Bound", backend)
    mountpoint = mountpoints(backend)[0]
    eventually(mountpoint.is_mount, backend)
    assert (mountpoint / "nfs-imagenet" / "picture.jpg").read_bytes() == FILES["train/part-0.bin"]
    tell(backend.must("get", "pv,pvc").stdout)

    backend.must("delete", "alluxioruntime", "imagenet")
    eventually(lambda: phase(backend) == "NotBound", backend)
    assert not mountpoint.is_mount()
    eventually(lambda: not (state_of(backend) / "datasets" / "default.imagenet").exists(), backend)
    backend.must("delete", "dataset", "imagenet")
    claims = backend.must("get", "pvc").stdout.splitlines()
    assert [line.split()[:2] for line in claims[1:]] == [["nfs-imagenet", "Bound"]]


def test_a_changed_secret_restarts_master_and_workers_and_no_mount(
    backend: Shell, storage: S3Server, tmp_path: Path
) -> None:
    keys = storage.credentials
    names = {"key": keys.access_key_id, "secret": keys.secret_access_key, "endpoint": storage.endpoint}
    text = YAML.format(cache=tmp_path / "cache", **names)
    apply(backend, text, tmp_path)
    eventually(lambda: phase(backend) == "Bound" and len(roles(backend)) == 5, backend)
    before = {name: line["pid"] for name, line in roles(backend).items()}

    def changed() -> set[str]:
        return {name for name, line in roles(backend).items() if before.get(name) != line["pid"]}

    # A key that nobody uses: else the master would be the first to go, and another quota is no business of its.
    noted = text.replace("stringData:\n", "stringData:\n  comment: rotated\n").replace("64M", "65M")
    apply(backend, noted, tmp_path)
    workers = {f"default.imagenet.worker-{index}" for index in range(2)}
    eventually(
        lambda: changed() == workers and all(line["health"] == "ready" for line in roles(backend).values()),
        backend,
    )

    before = {name: line["pid"] for name, line in roles(backend).items()}
    apply(backend, noted.replace(keys.secret_access_key, "wrong-" * 4), tmp_path)
    eventually(lambda: reason(backend, "Degraded") == "AccessDenied", backend)
    # Workers go on with the keys that they have.
    assert changed() == {"default.imagenet.master"}
    apply(backend, noted, tmp_path)
    eventually(lambda: reason(backend, "Degraded") != "AccessDenied" and ready_workers(backend) == 2, backend)
    assert phase(backend) == "Bound"
    assert {name for name in changed() if "mount" in name} == set()
    assert len(digests(mountpoints(backend)[1] / "imagenet")) == len(FILES)
