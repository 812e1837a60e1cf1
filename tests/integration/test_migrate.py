"""Copies over a real S3 server: out of a dataset, into one, between buckets; killed, gone on with, and compared."""

from __future__ import annotations

import contextlib
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
from headrace.netns.namespaces import can_make_namespaces
from headrace.testing.buckets import put_object
from headrace.testing.faulty_origin import Fault, FaultyOrigin, Lie
from headrace.testing.made_files import MadeFiles
from headrace.testing.network import LoopbackLink
from headrace.testing.processes import freeze
from headrace.testing.s3_server import S3Server

from .harness import Shell, tree_of
from .servers import Bucket

DEADLINE_S = 120.0
MIB = 1 << 20
PART_BYTES = 16 * MIB
FILES = MadeFiles(
    {
        "part-0.bin": partial(os.urandom, 3_000_000),
        "deep/er/part-1.bin": partial(os.urandom, 20 * MIB + 1),
        "empty": bytes,
    }
)
# A dataset over the bucket, and the keys under the names that the options have.
LAKE = """apiVersion: v1
kind: Secret
metadata:
  name: keys
stringData:
  aws.accessKeyId: {key}
  aws.secretKey: {secret}
  endpoint: {endpoint}
  path-style: "true"
---
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata:
  name: lake
spec:
  mounts:
    - mountPoint: s3://data/train
      path: /
      options:
        endpoint: {endpoint}
        path-style: "true"
      encryptOptions:
        - name: aws.accessKeyId
          valueFrom: {{secretKeyRef: {{name: keys, key: aws.accessKeyId}}}}
        - name: aws.secretKey
          valueFrom: {{secretKeyRef: {{name: keys, key: aws.secretKey}}}}
---
apiVersion: data.fluid.io/v1alpha1
kind: JindoRuntime
metadata:
  name: lake
spec:
  replicas: 1
  tieredstore:
    levels:
      - mediumtype: SSD
        path: {cache}
        quota: 128M
"""
MIGRATE = """apiVersion: data.fluid.io/v1alpha1
kind: DataMigrate
metadata:
  name: {name}
spec:
  from: {source}
  to: {target}
"""
DATASET = "{dataset: {name: lake, namespace: default%s}}"
BUCKET = (
    "{externalStorage: {uri: '%s', encryptOptions: ["
    + ", ".join(
        f"{{name: {name}, valueFrom: {{secretKeyRef: {{name: keys, key: {name}}}}}}}"
        for name in ("aws.accessKeyId", "aws.secretKey", "endpoint", "path-style")
    )
    + "]}}"
)


class HostLink(LoopbackLink):
    """The server listens on this machine's own address on the switch of the virtual nodes."""

    def __init__(self, address: str) -> None:
        self.server_address = address


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """One node; the tests use names of their own on it."""
    folder = tmp_path_factory.mktemp("backend")
    (folder / "run").mkdir(mode=0o700)
    own = {"HEADRACE_STATE_DIR": str(folder / "state"), "HEADRACE_RUNTIME_DIR": str(folder / "run")}
    shell = Shell(folder, own)
    shell.must("up", "--nodes", "1")
    try:
        yield shell
    finally:
        shell.must("down")


@pytest.fixture(scope="module")
def address(backend: Shell) -> str:
    """Of this machine, as the node reaches it."""
    subnet = client_of(backend).status().network
    return str(ipaddress.ip_network(subnet)[-2]) if can_make_namespaces() else "127.0.0.1"


@pytest.fixture(scope="module")
def started(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    folder = tmp_path_factory.mktemp("storage")
    with S3Server(folder / "objects", state=folder / "server", link=HostLink(address)) as running:
        yield running


@pytest.fixture(scope="module")
def way(started: S3Server, address: str) -> Iterator[FaultyOrigin]:
    """What stands between the node and the server, and holds back what a test tells it to."""
    with FaultyOrigin(started.endpoint, address=address) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def storage(
    backend: Shell, started: S3Server, way: FaultyOrigin, tmp_path_factory: pytest.TempPathFactory
) -> S3Server:
    """The bucket `data` behind the dataset `lake`, which is ready."""
    folder = tmp_path_factory.mktemp("lake")
    for name, content in FILES.items():
        put_object(started.bucket_folder("data"), f"train/{name}", content)
    started.bucket_folder("other")
    keys = started.credentials
    text = LAKE.format(
        key=keys.access_key_id,
        secret=keys.secret_access_key,
        endpoint=way.endpoint,
        cache=folder / "cache",
    )
    apply(backend, text, folder)
    backend.must("wait", "--for=condition=Ready", "dataset/lake", "--timeout", "100s")
    return started


def apply(shell: Shell, text: str, folder: Path) -> None:
    file = folder / "objects.yaml"
    file.write_text(text)
    shell.must("apply", "-f", file)


def migrate(shell: Shell, folder: Path, name: str, source: str, target: str) -> dict[str, Any]:
    """The status of a DataMigrate that has ended."""
    apply(shell, MIGRATE.format(name=name, source=source, target=target), folder)
    eventually(
        lambda: status_of(shell, name).get("phase") in ("Complete", "Failed"), f"the end of {name}", shell
    )
    return status_of(shell, name)


def client_of(shell: Shell) -> LocalClient:
    return LocalClient(BackendLayout(Path(shell.environment["HEADRACE_STATE_DIR"]) / "local"))


def status_of(shell: Shell, name: str) -> dict[str, Any]:
    """Of a DataMigrate. Asked for without a command, which takes longer to start than it runs."""
    found = client_of(shell).objects(["DataMigrate"], namespace="default").items
    (document,) = (each for each in found if each["metadata"]["name"] == name)
    return dict(document.get("status") or {})


def local(folder: Path) -> str:
    return f"{{externalStorage: {{uri: 'local://{folder}'}}}}"


def objects(server: S3Server, bucket: str, prefix: str) -> dict[str, bytes]:
    """What the bucket holds, asked for with a client that shares nothing with the engine."""
    client = server.client()
    listed = client.list_objects(bucket, prefix)
    return {each.key.removeprefix(prefix): client.get(bucket, each.key) for each in listed}


def test_a_dataset_is_copied_to_a_folder_and_a_byte_that_changed_there_is_found(
    backend: Shell, storage: S3Server, tmp_path: Path
) -> None:
    target = tmp_path / "copy"
    status = migrate(backend, tmp_path, "out", DATASET % "", local(target))
    assert status["phase"] == "Complete", status
    assert status["infos"]["Files"] == "3/3"
    assert status["infos"]["Progress"] == "100.0%"
    assert tree_of(target) == FILES

    damaged = target / "part-0.bin"
    times = damaged.stat()
    content = bytearray(FILES["part-0.bin"])
    content[1_234_567] ^= 1
    damaged.write_bytes(content)
    os.utime(damaged, ns=(times.st_atime_ns, times.st_mtime_ns))
    backend.must("delete", "datamigrate", "out")
    status = migrate(backend, tmp_path, "again", DATASET % "", local(target))
    assert status["phase"] == "Complete", status
    assert tree_of(target) == FILES
    backend.must("delete", "datamigrate", "again")
    operations = Path(backend.environment["HEADRACE_STATE_DIR"]) / "local" / "operations"
    assert not list(operations.glob("*"))


def test_a_folder_is_copied_to_the_bucket_behind_a_dataset(
    backend: Shell, storage: S3Server, tmp_path: Path
) -> None:
    source = tmp_path / "incoming"
    (source / "new").mkdir(parents=True)
    (source / "new" / "file").write_bytes(b"fresh")
    (source / "large").write_bytes(os.urandom(18 * MIB))
    status = migrate(backend, tmp_path, "in", local(source), DATASET % ", path: /arrived")
    assert status["phase"] == "Complete", status
    assert objects(storage, "data", "train/arrived/") == tree_of(source)


def test_a_dataset_is_copied_to_another_bucket_with_keys_that_nothing_shows(
    backend: Shell, storage: S3Server, tmp_path: Path
) -> None:
    status = migrate(backend, tmp_path, "over", DATASET % ", path: /deep", BUCKET % "s3://other/backup")
    assert status["phase"] == "Complete", status
    name = "deep/er/part-1.bin"
    assert objects(storage, "other", "backup/") == {"er/part-1.bin": FILES[name]}
    folder = Path(backend.environment["HEADRACE_STATE_DIR"]) / "local"
    found = subprocess.run(
        ["grep", "-rl", storage.credentials.secret_access_key, folder],
        capture_output=True,
        text=True,
        check=False,
    )
    files = [Path(line) for line in found.stdout.splitlines() if not Path(line).name.startswith("objects.db")]
    assert files
    assert all(file.stat().st_mode & 0o777 == 0o600 and file.parent.name == "secrets" for file in files), (
        files
    )


def test_what_cannot_be_copied_is_told_in_the_status(
    backend: Shell, storage: S3Server, tmp_path: Path
) -> None:
    target = tmp_path / "copy"
    (target / "part-0.bin").mkdir(parents=True)
    status = migrate(backend, tmp_path, "blocked", DATASET % "", local(target))
    failed = next(each for each in status["conditions"] if each["type"] == "Failed")
    assert (status["phase"], failed["reason"]) == ("Failed", "CopyIncomplete")
    assert "part-0.bin" in failed["message"]
    assert (target / "deep/er/part-1.bin").read_bytes() == FILES["deep/er/part-1.bin"]
    status = migrate(backend, tmp_path, "nobucket", DATASET % "", BUCKET % "s3://missing/backup")
    failed = next(each for each in status["conditions"] if each["type"] == "Failed")
    assert "bucket missing does not exist" in failed["message"], failed


@contextlib.contextmanager
def begun(shell: Shell, way: FaultyOrigin, folder: Path, name: str) -> Iterator[int]:
    """The process of a copy of 48 MiB which has noted the first part; no other arrives while the block runs."""
    source = folder / "incoming"
    source.mkdir()
    large = os.urandom(3 * PART_BYTES)
    (source / "large").write_bytes(large)
    os.utime(source / "large", (1_700_000_000, 1_700_000_000))
    silence = way.add(
        Fault(Lie.SILENCE, rf"/{name}/large\?.*partNumber=", method="PUT", after=1, delay_s=DEADLINE_S)
    )
    apply(shell, MIGRATE.format(name=name, source=local(source), target=DATASET % f", path: /{name}"), folder)
    # Parts are sent in a row, each once the one before is noted.
    eventually(lambda: silence.done > 0, "the second part is sent", shell)
    # What the storage answers to a part is its digest.
    answer = hashlib.md5(large[:PART_BYTES]).hexdigest().encode()
    operations = Path(shell.environment["HEADRACE_STATE_DIR"]) / "local" / "operations"
    assert any(answer in ledger.read_bytes() for ledger in operations.rglob("copy.hrc"))
    roles = client_of(shell).status().roles
    (process,) = (
        line.pid for line in roles if line.id == f"operation.default.datamigrate.{name}" and line.pid
    )
    try:
        yield process
    finally:
        way.clear()


def test_a_deleted_copy_leaves_neither_an_upload_nor_half_a_file(
    backend: Shell, storage: S3Server, way: FaultyOrigin, tmp_path: Path
) -> None:
    with begun(backend, way, tmp_path, "gone") as process:
        freeze(process)
        backend.must("delete", "datamigrate", "gone", "--no-wait")
        eventually(lambda: is_told_to_end(process), "the supervisor cancels it")
        os.kill(process, signal.SIGCONT)
        backend.must("wait", "--for=delete", "datamigrate/gone", "--timeout", "100s")
    uploads = storage.client().request("GET", "/data", query={"uploads": ""})
    assert b"<UploadId>" not in uploads.body, uploads.body
    assert objects(storage, "data", "train/gone/") == {}


def is_told_to_end(process: int) -> bool:
    """Whether SIGTERM waits for a process that is stopped."""
    status = Path(f"/proc/{process}/status").read_text()
    waiting = next(line for line in status.splitlines() if line.startswith("ShdPnd:"))
    return bool(int(waiting.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def test_a_killed_copy_of_a_migration_goes_on(
    backend: Shell, storage: S3Server, way: FaultyOrigin, tmp_path: Path
) -> None:
    with begun(backend, way, tmp_path, "killed") as process:
        os.kill(process, signal.SIGKILL)
    backend.must("wait", "--for=jsonpath={.status.phase}=Complete", "datamigrate/killed", "--timeout", "100s")
    assert objects(storage, "data", "train/killed/") == tree_of(tmp_path / "incoming")
    # 3 parts; the one that was on its way has never arrived. The server writes down what it has done a moment after it.
    parts = "train/killed/large"
    eventually(lambda: storage.requests(parts)["UploadPart"] >= 3, "all parts have arrived", backend)
    assert storage.requests(parts)["UploadPart"] == 3
    backend.must("delete", "datamigrate", "killed")


def test_a_copy_that_is_killed_goes_on_and_sends_nothing_twice(
    shell: Shell, liar: FaultyOrigin, lying_bucket: Bucket, tmp_path: Path
) -> None:
    """In the middle of an upload: after two parts the storage says nothing more."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "large").write_bytes(os.urandom(48 * MIB))
    for path in source.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    server = lying_bucket.server
    words = copy_words(shell, source, lying_bucket, tmp_path)
    silence = liar.add(Fault(Lie.SILENCE, r"partNumber=", method="PUT", after=2, delay_s=DEADLINE_S))
    process = subprocess.Popen(words, env=shell.full_environment(), stderr=subprocess.DEVNULL)
    # Parts are sent in a row, each once the one before is noted.
    eventually(lambda: silence.done, "the third part is sent")
    process.send_signal(signal.SIGKILL)
    process.wait()
    liar.clear()
    assert objects(server, lying_bucket.name, "copy/") == {}
    # The server writes down what it has done a moment after it.
    eventually(lambda: server.requests()["UploadPart"] == 2, "two parts have arrived")
    done = subprocess.run(words, env=shell.full_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # 6 parts of 8 MiB.
    eventually(lambda: server.requests()["UploadPart"] >= 6, "all parts have arrived")
    assert server.requests()["UploadPart"] == 6
    assert objects(server, lying_bucket.name, "copy/") == tree_of(source)
    assert server.requests()["CreateMultipartUpload"] == 1
    sent = server.requests()["UploadPart"]
    again = subprocess.run(words, env=shell.full_environment(), capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert (server.requests()["UploadPart"], server.requests()["PutObject"]) == (sent, 0)


def copy_words(shell: Shell, source: Path, bucket: Bucket, tmp_path: Path) -> list[str]:
    settings = {
        "source": {"origin": str(source)},
        "target": {
            "origin": f"s3://{bucket.name}/copy",
            "options": {"endpoint": bucket.options["endpoint"], "path-style": "true"},
        },
        "part_size": "8Mi",
        "state_directory": str(tmp_path / "state"),
    }
    file = tmp_path / "copy.yaml"
    file.write_text(json.dumps(settings))
    return [sys.executable, "-m", "headrace.cli.main", "copy", "--config", str(file)]


def eventually(what: Callable[[], bool], wanted: str, shell: Shell | None = None) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        if time.monotonic() > deadline:
            told = shell.run("describe", "datamigrate").talk + shell.run("events").talk if shell else ""
            raise AssertionError(f"in vain: {wanted}\n{told}")
        time.sleep(0.02)
