"""The documents that Headrace follows, command by command as printed there, on four virtual nodes.

What differs from them is the name of the command, buckets, endpoints and keys, and sizes of data, which are true.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.testing import nfs_server
from headrace.testing.buckets import put_object
from headrace.testing.nfs_server import NfsServer
from headrace.testing.oss_objects import OssBucket
from headrace.testing.oss_server import OssServer
from headrace.testing.s3_server import S3Server

from .harness import Shell, tree_of

PRINTED = Path(__file__).parent.parent / "unit" / "api" / "seeds"
NODES = 4
DEADLINE_S = 90.0
LACKING = nfs_server.lacking()
FILES = {
    f"train/n{number:08}/part-{number}.bin": random.Random(number).randbytes(300_000 + number)
    for number in range(6)
}

SIZE = r"\d+\.\d\d([KMGTP]i)?B"
AGE = r"\d+[smhdy](\d+[smhd])?"
DATASET = {
    "NAME": "imagenet",
    "UFS TOTAL SIZE": SIZE,
    "CACHED": r"0\.00B",
    "CACHE CAPACITY": SIZE,
    "CACHED PERCENTAGE": r"0\.0%",
    "PHASE": "Bound",
    "AGE": AGE,
}
RUNTIME = {
    "NAME": "imagenet",
    **dict.fromkeys(("MASTER PHASE", "WORKER PHASE", "FUSE PHASE"), "Ready"),
    "AGE": AGE,
}
WIDE_RUNTIME = {
    "NAME": "imagenet",
    **{"READY MASTERS": "1", "DESIRED MASTERS": "1", "MASTER PHASE": "Ready"},
    **{"READY WORKERS": "4", "DESIRED WORKERS": "4", "WORKER PHASE": "Ready"},
    **{"READY FUSES": "4", "DESIRED FUSES": "4", "FUSE PHASE": "Ready"},
    **{"API GATEWAY": "", "AGE": AGE},
}


def volume(name: str, *, capacity: str = "100Gi", modes: str = "RWX", storage: str = "") -> dict[str, str]:
    """A row of `get pv`."""
    return {
        "NAME": f"persistentvolume/{name}",
        **{"CAPACITY": capacity, "ACCESS MODES": modes, "RECLAIM POLICY": "Retain", "STATUS": "Bound"},
        **{"CLAIM": f"default/{name}", "STORAGECLASS": storage, "REASON": "", "AGE": AGE},
    }


def claim(name: str, *, capacity: str = "100Gi", modes: str = "RWX", storage: str = "") -> dict[str, str]:
    """A row of `get pvc`."""
    return {
        "NAME": f"persistentvolumeclaim/{name}",
        **{"STATUS": "Bound", "VOLUME": name, "CAPACITY": capacity, "ACCESS MODES": modes},
        **{"STORAGECLASS": storage, "AGE": AGE},
    }


NFS = {"capacity": "150Gi", "modes": "ROX", "storage": "nfs"}


@dataclass(frozen=True)
class Desk:
    """Where a person sits: a shell, and a folder for files."""

    shell: Shell
    folder: Path
    state: Path

    def write(self, file: str, printed: str, **words: str) -> None:
        """A file as a document prints it, with what a person fills in."""
        text = (PRINTED / printed).read_text(encoding="utf-8")
        if os.geteuid() != 0:
            text = text.replace("/var/lib/docker", str(self.folder))
        for before, after in words.items():
            assert before in text
            text = text.replace(before, after)
        (self.folder / file).write_text(text)

    def kubectl(self, line: str) -> str:
        """What a command of a document prints, with `headrace` in the place of `kubectl`."""
        words = [str(self.folder / word) if word.endswith(".yaml") else word for word in shlex.split(line)]
        return self.shell.must(*words).stdout

    def tables(self, line: str) -> list[list[dict[str, str]]]:
        """The tables that a command prints."""
        return [rows_of(text) for text in self.kubectl(line).split("\n\n")]

    def wait_until_ready(self, kind: str, name: str) -> None:
        """As a person who looks again and again."""
        self.kubectl(f"wait --for=jsonpath={{.status.phase}}=Bound dataset/{name} --timeout 90s")
        deadline = time.monotonic() + DEADLINE_S
        while self.tables(f"get {kind} {name}")[0][0]["FUSE PHASE"] != "Ready":
            assert time.monotonic() < deadline, self.kubectl(f"describe {kind} {name}")
            time.sleep(0.2)

    def mountpoints(self, dataset: str) -> list[Path]:
        """Where the four nodes have the files of a dataset."""
        nodes = self.state / "local" / "nodes"
        return [nodes / f"node-{number}" / "mounts" / "default" / dataset for number in range(1, NODES + 1)]

    def read(self, dataset: str, folder: str) -> None:
        """All files, through the mount of every node."""
        for mountpoint in self.mountpoints(dataset):
            assert tree_of(mountpoint / folder) == FILES


def rows_of(table: str) -> list[dict[str, str]]:
    """The rows of a table: what stands under each title."""
    head, *lines = table.rstrip("\n").splitlines()
    titles = list(re.finditer(r"\S+( \S+)*", head))
    ends = [*(title.start() for title in titles[1:]), None]
    return [
        {title[0]: line[title.start() : end].strip() for title, end in zip(titles, ends, strict=True)}
        for line in lines
    ]


def check(rows: list[dict[str, str]], *expected: dict[str, str]) -> None:
    """Every column under its title, in its order, in its form."""
    assert [list(row) for row in rows] == [list(each) for each in expected]
    for row, each in zip(rows, expected, strict=True):
        wrong = {title: row[title] for title, form in each.items() if not re.fullmatch(form, row[title])}
        assert not wrong, each


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """`headrace up --nodes 4` with the label of the documents' nodes."""
    folder = tmp_path_factory.mktemp("seeds")
    (folder / "run").mkdir(mode=0o700)
    own = {"HEADRACE_STATE_DIR": str(folder / "state"), "HEADRACE_RUNTIME_DIR": str(folder / "run")}
    shell = Shell(folder, own)
    label = "aliyun.accelerator/nvidia_name=Tesla-V100-SXM2-16GB"
    shell.must("up", "--nodes", str(NODES), "--node-label", label)
    try:
        yield Desk(shell, folder, folder / "state")
    finally:
        shell.must("down")


@pytest.fixture(scope="module")
def oss() -> Iterator[OssServer]:
    """An OSS server with the files in a folder of a bucket, and a bucket of files alone."""
    with OssServer() as server:
        for name, prefix in (("imagenet-bucket", "imagenet/"), ("imagenet-files", "")):
            server.buckets[name] = OssBucket()
            for key, content in FILES.items():
                server.buckets[name].put(prefix + key, content)
        yield server


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    with S3Server(tmp_path / "objects", state=tmp_path / "server") as server:
        folder = server.bucket_folder("imagenet-bucket")
        for key, content in FILES.items():
            put_object(folder, f"imagenet/{key}", content)
        yield server


@pytest.fixture
def nfs(tmp_path: Path) -> Iterator[NfsServer]:
    with NfsServer(tmp_path / "export", state=tmp_path / "server") as server:
        for name, content in FILES.items():
            path = server.export / "imagenet" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        yield server


@pytest.fixture(autouse=True)
def nothing_stays(desk: Desk) -> Iterator[None]:
    """What the documents' own commands left of a dataset; a test that passes leaves nothing."""
    yield
    for line in ("delete dataset,alluxioruntime,jindoruntime,secret,pvc,pv --all",):
        desk.shell.run(*line.split())
    assert "No resources" in desk.shell.run("get", "dataset,jindoruntime,alluxioruntime,pv,pvc,secret").talk


def test_000_oss_with_a_secret_and_a_jindo_runtime(desk: Desk, oss: OssServer) -> None:
    words = {"<oss_bucket>/<bucket_dir>": "imagenet-bucket/imagenet", "<oss_endpoint>": oss.endpoint}
    keys = {
        "fs.oss.accessKeyId: xxx": f"fs.oss.accessKeyId: {oss.keys.access_key_id}",
        "fs.oss.accessKeySecret: xxx": f"fs.oss.accessKeySecret: {oss.keys.access_key_secret}",
    }
    desk.write("dataset.yaml", "000-dataset.yaml", **words, **keys)
    desk.write("runtime.yaml", "000-runtime.yaml")
    desk.kubectl("create -f dataset.yaml")
    desk.kubectl("create -f runtime.yaml")
    desk.wait_until_ready("jindoruntime", "imagenet")

    (datasets,) = desk.tables("get dataset")
    check(datasets, {**DATASET, "CACHE CAPACITY": r"648\.00GiB"})
    (runtimes,) = desk.tables("get jindoruntime")
    check(runtimes, RUNTIME)
    volumes, claims = desk.tables("get pv,pvc")
    check(volumes, volume("imagenet"))
    check(claims, claim("imagenet"))
    desk.read("imagenet", "imagenet")

    # Not as anybody would write it, and as the document does.
    desk.kubectl("delete -f dataset imagenet")
    desk.kubectl("delete -f jindoruntime imagenet")
    assert not any(mountpoint.is_mount() for mountpoint in desk.mountpoints("imagenet"))


def test_001_oss_with_the_endpoint_in_the_address_and_caches_in_memory(desk: Desk, oss: OssServer) -> None:
    host = oss.endpoint.removeprefix("http://")
    words = {
        "chengli-sh-test.oss-cn-shanghai-internal.aliyuncs.com": f"imagenet-files.{host}",
        # A real endpoint speaks TLS; this one has to be told.
        "fs.oss.accessKeyId: xxx": f"fs.oss.accessKeyId: {oss.keys.access_key_id}\n"
        f"        fs.oss.endpoint: {oss.endpoint}",
        "fs.oss.accessKeySecret: xxx": f"fs.oss.accessKeySecret: {oss.keys.access_key_secret}",
    }
    desk.write("dataset.yaml", "001-dataset.yaml", **words)
    desk.kubectl("create -f dataset.yaml")
    desk.wait_until_ready("alluxioruntime", "imagenet")

    lines = {line.strip() for line in desk.kubectl("describe alluxioruntime imagenet").splitlines()}
    for line in RUNTIME_LINES:
        assert any(re.fullmatch(line, each) for each in lines), line
    lines = {line.strip() for line in desk.kubectl("describe dataset").splitlines()}
    for line in DATASET_LINES:
        assert any(re.fullmatch(line, each) for each in lines), line
    assert any(re.fullmatch(r"Cache Capacity: +400\.00GiB", each) for each in lines)
    volumes, claims = desk.tables("get pv,pvc")
    check(volumes, volume("imagenet"))
    check(claims, claim("imagenet"))
    desk.read("imagenet", "imagenet")


def field(name: str, value: str) -> str:
    """A line of `describe`."""
    return f"{name}: +{value}"


HEAD_LINES = (
    *(field("Name", "imagenet"), field("Namespace", "default")),
    *(field("Labels", "<none>"), field("Annotations", "<none>")),
    field("API Version", re.escape("data.fluid.io/v1alpha1")),
    *("Metadata:", "Spec:", "Status:", "Cache States:", "Conditions:", "Events:"),
    *(field("Cached", r"0\.00B"), field("Cached Percentage", r"0\.0%"), field("Cache Capacity", SIZE)),
)
RUNTIME_LINES = (
    *HEAD_LINES,
    field("Kind", "AlluxioRuntime"),
    *(
        field(f"{time} {role} Number Scheduled", count)
        for time in ("Current", "Desired")
        for role, count in (("Fuse", "4"), ("Master", "1"), ("Worker", "4"))
    ),
    field("Fuse Number Available", "4"),
)
DATASET_LINES = (
    *HEAD_LINES,
    field("Kind", "Dataset"),
    field("Last Transition Time", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    field("Last Update Time", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    *(field("Message", r"The ddc runtime is ready\."), field("Reason", "DatasetReady")),
    *(field("Status", "True"), field("Type", "Ready"), field("Phase", "Bound"), "Runtimes:"),
    *(field("Category", "Accelerate"), field("Type", "alluxio"), field("Ufs Total", SIZE)),
)


def test_002_the_same_on_s3(desk: Desk, s3: S3Server) -> None:
    keys = s3.credentials
    words = {
        "oss://<OSS_BUCKET>/<OSS_DIRECTORY>/": "s3://imagenet-bucket/imagenet/",
        "fs.oss.accessKeyId: <OSS_ACCESS_KEY_ID>": f"aws.accessKeyId: {keys.access_key_id}",
        "fs.oss.accessKeySecret: <OSS_ACCESS_KEY_SECRET>": f"aws.secretKey: {keys.secret_access_key}",
        "fs.oss.endpoint: <OSS_ENDPOINT>": f"alluxio.underfs.s3.endpoint: {s3.endpoint}\n"
        '      alluxio.underfs.s3.disable.dns.buckets: "true"',
    }
    desk.write("dataset.yaml", "002-dataset.yaml", **words)
    desk.kubectl("create -f dataset.yaml")
    desk.wait_until_ready("alluxioruntime", "imagenet")

    (datasets,) = desk.tables("get dataset")
    check(datasets, {**DATASET, "CACHE CAPACITY": r"200\.00GiB"})
    (runtimes,) = desk.tables("get alluxioruntime -o wide")
    check(runtimes, WIDE_RUNTIME)
    desk.read("imagenet", "imagenet")
    desk.kubectl("delete -f dataset.yaml")
    assert "No resources" in desk.shell.run("get", "dataset,alluxioruntime,pv,pvc").talk


@pytest.mark.skipif(bool(LACKING), reason=LACKING)
def test_003_a_claim_of_an_nfs_volume(desk: Desk, nfs: NfsServer) -> None:
    words = {"<YOUR_PATH_TO_DATASET>": str(nfs.export), "<YOUR_NFS_SERVER>": nfs.address}
    desk.write("nfs.yaml", "003-nfs.yaml", **words)
    desk.kubectl("create -f nfs.yaml")
    volumes, claims = desk.tables("get pv,pvc")
    check(volumes, volume("nfs-imagenet", **NFS))
    check(claims, claim("nfs-imagenet", **NFS))

    desk.write("dataset.yaml", "003-dataset.yaml")
    desk.kubectl("create -f dataset.yaml")
    desk.wait_until_ready("alluxioruntime", "fluid-imagenet")
    volumes, claims = desk.tables("get pv,pvc")
    check(volumes, volume("fluid-imagenet"), volume("nfs-imagenet", **NFS))
    check(claims, claim("fluid-imagenet"), claim("nfs-imagenet", **NFS))
    (datasets,) = desk.tables("get dataset")
    check(datasets, {**DATASET, "NAME": "fluid-imagenet", "CACHE CAPACITY": r"600\.00GiB"})
    # The job's DATA_DIR is /data/nfs-imagenet/imagenet.
    desk.read("fluid-imagenet", "nfs-imagenet/imagenet")

    desk.kubectl("delete -f dataset.yaml")
    said = desk.kubectl("""patch pvc nfs-imagenet -p '{"metadata":{"finalizers": []}}' --type=merge""")
    assert said == "persistentvolumeclaim/nfs-imagenet patched\n"
    desk.kubectl("delete -f nfs.yaml")
