"""Datasets that refer to another one, and the same name in two namespaces: each lives and ends by itself."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import pytest

from headrace.exits import ExitCode
from headrace.testing.buckets import put_object
from headrace.testing.s3_server import S3Server

from .declared import Backend, backend, bucket, declared, same

A = "{mountPoint: 's3://data/a', name: a}"
REFERENCE = """apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  mounts: [{{mountPoint: "dataset://{to}"}}]
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with backend(tmp_path_factory.mktemp("references"), nodes=2) as running:
        yield running


@pytest.fixture(scope="module")
def server(made: Backend) -> Iterator[S3Server]:
    with bucket(made) as running:
        folder = running.bucket_folder("data")
        for number in range(4):
            put_object(folder, f"a/part-{number}.bin", random.Random(number).randbytes(700_000 + number))
            put_object(folder, f"b/part-{number}.bin", random.Random(number + 9).randbytes(300_000))
        yield running


def test_a_reference_is_read_through_the_other_datasets_cluster(made: Backend, server: S3Server) -> None:
    source = server.bucket_folder("data") / "a"
    made.apply(REFERENCE.format(name="view", namespace="other", to="default/base"))
    made.eventually(lambda: why(made) == "DatasetNotShared", "view", "other")
    unshared = declared(server, made.folder / "cache", mounts=f"[{A}]", name="base")
    made.apply(unshared)
    made.eventually(lambda: made.is_bound("base", 2), "base")
    assert why(made) == "DatasetNotShared"
    text = unshared.replace("  placement: Shared\n", "  placement: Shared\n  sharedWith: [other]\n")
    assert text != unshared
    made.apply(text)
    made.eventually(lambda: made.status("Dataset", "view", "other").get("phase") == "Bound", "view", "other")
    views = [made.mountpoint("view", node, "other") for node in (1, 2)]
    for view in views:
        made.eventually(lambda view=view: same(view / "a", source), "view", "other")
    assert set(made.roles("view", "other")) == {"mount-node-1", "mount-node-2"}

    # Without its consent the mounts end, and with it they are back.
    made.apply(unshared)
    made.eventually(lambda: why(made) == "DatasetNotShared", "view", "other")
    made.eventually(lambda: not made.roles("view", "other"), "view", "other")
    made.apply(text)
    for view in views:
        made.eventually(lambda view=view: same(view / "a", source), "view", "other")

    # The other one may not go while it is referred to, and says by whom.
    made.shell.must("delete", "dataset", "base", "--no-wait")
    made.eventually(lambda: made.condition("base", "Terminating").get("reason") == "DatasetReferred", "base")
    assert "other/view" in made.shell.must("describe", "dataset", "base").stdout
    assert same(views[0] / "a", source)
    made.shell.must("delete", "dataset", "view", "-n", "other")
    made.shell.must("wait", "--for=delete", "dataset/base", "--timeout", "100s")
    assert not any(view.exists() for view in views)
    made.eventually(lambda: not made.roles("base"), "base")

    # Born again it has another token, and perhaps another address.
    made.apply(REFERENCE.format(name="view", namespace="other", to="default/base"), text)
    for view in views:
        made.eventually(lambda view=view: same(view / "a", source), "view", "other")


def why(made: Backend) -> str:
    return str(made.condition("view", "Ready", "other").get("reason"))


def test_the_same_name_in_two_namespaces_is_two_datasets(made: Backend, server: S3Server) -> None:
    source, cache = server.bucket_folder("data"), made.folder / "twins"
    one = declared(server, cache, mounts=f"[{A}]", name="twin")
    two = declared(
        server, cache, mounts=f"[{A.replace('data/a', 'data/b')}]", name="twin", namespace="second"
    )
    made.apply(one, two)
    for namespace, folder in (("default", "a"), ("second", "b")):
        made.eventually(partial(made.is_bound, "twin", 2, namespace), "twin", namespace)
        there = made.mountpoint("twin", 2, namespace) / "a"
        made.eventually(partial(same, there, source / folder), "twin", namespace)
    volumes = {item["metadata"]["name"] for item in made.client.objects(["PersistentVolume"]).items}
    assert {"twin", "twin.second"} <= volumes

    other = made.roles("twin", "second")
    for kind in ("dataset", "alluxioruntime"):
        made.shell.must("delete", kind, "twin")
    assert made.roles("twin") == {}
    assert sorted(path.name for path in cache.iterdir()) == ["second"]
    assert {name: line.pid for name, line in made.roles("twin", "second").items()} == {
        name: line.pid for name, line in other.items()
    }
    assert same(made.mountpoint("twin", 2, "second") / "a", source / "b")
    volumes = {item["metadata"]["name"] for item in made.client.objects(["PersistentVolume"]).items}
    assert "twin" not in volumes
    assert "twin.second" in volumes


LOAD = """apiVersion: data.fluid.io/v1alpha1
kind: DataLoad
metadata: {name: late}
spec: {dataset: {name: used}}
"""
USER = "import sys; file = open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


def test_what_is_used_stays_until_it_is_left(made: Backend, server: S3Server) -> None:
    made.apply(declared(server, made.folder / "used", mounts=f"[{A}]", name="used"))
    made.eventually(lambda: made.is_bound("used", 2), "used")
    file = made.mountpoint("used", 2) / "a" / "part-0.bin"
    made.eventually(file.is_file, "used")
    command = [sys.executable, "-c", USER, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout is not None
        assert user.stdin is not None
        assert user.stdout.readline() == "open\n"
        made.shell.must("delete", "alluxioruntime", "used", "--no-wait")
        made.eventually(lambda: made.condition("used", "Terminating").get("reason") == "VolumeInUse", "used")
        assert made.status("Dataset", "used")["phase"] == "Terminating"
        assert "its AlluxioRuntime is being deleted" in made.condition("used", "Terminating")["message"]
        made.shell.must("delete", "dataset", "used", "--no-wait")
        made.eventually(
            lambda: "AlluxioRuntime" not in made.condition("used", "Terminating")["message"], "used"
        )
        said = made.shell.must("describe", "dataset", "used").stdout
        assert f"process {user.pid} (python" in said
        assert "on node-2" in said
        assert made.status("Dataset", "used")["phase"] == "Terminating"
        assert len(made.roles("used")) == 5
        # Who comes now would keep it for ever, one after the other.
        refused = made.shell.run("run", "--dataset", "used", "--", "true")
        assert refused.code == ExitCode.BUSY
        assert "dataset default/used is being deleted" in refused.talk
        made.apply(LOAD)
        late = partial(made.status, "DataLoad", "late")
        made.eventually(lambda: "default/used is being deleted" in str(late().get("conditions")), "used")
        made.shell.must("delete", "dataload", "late")
        assert file.read_bytes() == (server.bucket_folder("data") / "a" / "part-0.bin").read_bytes()
        user.stdin.close()
    made.shell.must("wait", "--for=delete", "dataset/used", "--timeout", "100s")
    assert made.roles("used") == {}
    assert not (made.folder / "used").exists()
    assert not file.parent.parent.exists()
