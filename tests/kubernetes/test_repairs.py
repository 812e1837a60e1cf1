"""What people break, and what ends at the wrong moment: it is told, and put right without anybody's help."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from charts import TEST_VALUES, Content, Release
from datasets_on_kubernetes import (
    Bucket,
    Reading,
    await_ready,
    namespace_of,
    parts_of,
    reader,
    reading_of,
    served_bucket,
)
from installing import ROLLED_OUT, wait_until_ready

from headrace.operator.operations.job_driver import NOTE_ANNOTATION
from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl

pytestmark = [pytest.mark.root, pytest.mark.slow]

READ = "train"
FILES = 400
# In the container of a master: no other can have its folder afterwards, and this one ends.
_SPOIL = """
import os, signal
os.rename("/var/lib/headrace/master/lock", "/var/lib/headrace/master/former-lock")
os.mkdir("/var/lib/headrace/master/lock")
os.kill(1, signal.SIGTERM)
"""


@pytest.fixture(scope="module")
def bucket(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with served_bucket(cluster.host_address, tmp_path_factory.mktemp("s3")) as made:
        made.fill(8, below=READ)
        yield made


@pytest.fixture(scope="module")
def reading(release: Release, kubernetes: Kubectl, bucket: Bucket) -> Iterator[Reading]:
    """A reader of one dataset, which the tests of this module share and leave as they found it."""
    with (
        namespace_of(kubernetes, "repairs") as name,
        reading_of(kubernetes, name, bucket, ("node-1",), below=READ) as found,
    ):
        yield found


def test_a_token_that_is_deleted_comes_back_as_it_was(kubernetes: Kubectl, reading: Reading) -> None:
    def token() -> dict[str, Any]:
        secrets = kubernetes.get("-n", reading.namespace, "secrets")["items"]
        return next((each for each in secrets if each["metadata"]["name"] == "imagenet-headrace-token"), {})

    before, pods = token(), _uids(reading)
    kubernetes("-n", reading.namespace, "delete", "secret", "imagenet-headrace-token")
    kubernetes.wait(lambda: bool(token()), "the token")
    assert token()["metadata"]["uid"] != before["metadata"]["uid"]
    assert token()["data"] == before["data"]
    kubernetes.wait(lambda: "TokenRestored" in _reasons_of_events(reading), "an event about it")
    reading.go_on()
    assert _uids(reading) == pods, "nobody had to be started anew"


def test_a_claim_that_is_deleted_is_made_again_once_nobody_uses_it(
    kubernetes: Kubectl, reading: Reading
) -> None:
    claim = ("-n", reading.namespace, "persistentvolumeclaim", "imagenet")
    before = kubernetes.get(*claim)["metadata"]["uid"]
    kubernetes("-n", reading.namespace, "delete", "pvc", "imagenet", "--wait=false")
    # It is used: whoever reads it goes on.
    reading.go_on()
    assert kubernetes.get(*claim)["metadata"]["uid"] == before
    kubernetes("-n", reading.namespace, "delete", "pod", *reading.pods, "--grace-period=1")

    def is_made_anew() -> bool:
        claims = kubernetes.get("-n", reading.namespace, "persistentvolumeclaims")["items"]
        return any(
            each["metadata"]["uid"] != before and each["status"].get("phase") == "Bound" for each in claims
        )

    kubernetes.wait(is_made_anew, "another claim that is bound")
    kubernetes.apply(reader(reading.pods[0], "node-1", below=READ), namespace=reading.namespace)
    reading.begin()


def test_a_volume_that_is_deleted_is_made_again_once_nobody_uses_it(
    kubernetes: Kubectl, reading: Reading
) -> None:
    name = kubernetes.get("-n", reading.namespace, "persistentvolumeclaim", "imagenet")["spec"]["volumeName"]
    before = kubernetes.get("persistentvolume", name)["metadata"]["uid"]
    kubernetes("delete", "persistentvolume", name, "--wait=false")
    kubernetes("-n", reading.namespace, "delete", "pvc", "imagenet", "--wait=false")
    reading.go_on()
    kubernetes("-n", reading.namespace, "delete", "pod", *reading.pods, "--grace-period=1")

    def is_made_anew() -> bool:
        volumes = kubernetes.get("persistentvolumes")["items"]
        return any(
            each["metadata"]["name"] == name
            and each["metadata"]["uid"] != before
            and each["status"].get("phase") == "Bound"
            for each in volumes
        )

    kubernetes.wait(is_made_anew, "another volume that is bound")
    kubernetes.apply(reader(reading.pods[0], "node-1", below=READ), namespace=reading.namespace)
    reading.begin()


def test_a_load_whose_master_is_killed_is_ordered_again_and_gets_to_its_end(
    kubernetes: Kubectl, cluster: Cluster, reading: Reading, bucket: Bucket
) -> None:
    """The next master knows nothing of it: its state went with its pod."""
    bucket.fill(FILES, 100_000, below="more")
    known = {"loadMetadata": True, "target": [{"path": f"/{READ}", "replicas": 1}]}
    kubernetes.apply(_load(reading, "listed", known), namespace=reading.namespace)
    _await_end(kubernetes, reading, "listed")

    def ordered() -> list[str]:
        """What the operator has noted of the loads that the master took."""
        found = kubernetes.get("-n", reading.namespace, "dataload", "killed")["metadata"]
        note = json.loads(found.get("annotations", {}).get(NOTE_ANNOTATION, "{}"))
        return list(note.get("details", {}).get("loads", ()))

    # However fast the machine is, the load is under way.
    bucket.server.process.freeze()
    try:
        kubernetes.apply(_load(reading, "killed", {}), namespace=reading.namespace)
        kubernetes.wait(lambda: bool(ordered()), "a load that the master has taken")
        before = ordered()
        (master,) = parts_of(kubernetes, reading.namespace, "master")
        container = master["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        words = ("delete", "pod", master["metadata"]["name"], "--grace-period=0", "--force")
        kubernetes("-n", reading.namespace, *words)
        # A pod that is deleted so may live on for a while.
        kill = f"ctr -n k8s.io task kill --all -s SIGKILL {container} || true"
        cluster.node(master["spec"]["nodeName"]).run("sh", "-c", kill)
    finally:
        bucket.server.process.thaw()
    states = _await_end(kubernetes, reading, "killed")
    assert any(f"{FILES + 8} files" in each["message"] for each in states["conditions"]), states
    assert ordered() != before, "it was ordered again"


def _await_end(kubernetes: Kubectl, reading: Reading, load: str) -> dict[str, Any]:
    """The status of a DataLoad that got to its end."""
    done = ("wait", f"dataload/{load}", "--for=jsonpath={.status.phase}=Complete", "--timeout=300s")
    kubernetes("-n", reading.namespace, *done, timeout_s=330)
    found: dict[str, Any] = kubernetes.get("-n", reading.namespace, "dataload", load)["status"]
    return found


def test_a_load_by_a_schedule_runs_whenever_it_is_due(kubernetes: Kubectl, reading: Reading) -> None:
    cron = {"policy": "Cron", "schedule": "* * * * *"}
    kubernetes.apply(_load(reading, "minutely", cron), namespace=reading.namespace)
    seen: set[str] = set()

    def has_run_twice() -> bool:
        status = kubernetes.get("-n", reading.namespace, "dataload", "minutely").get("status", {})
        assert status.get("phase") != "Failed", status
        if status.get("phase") == "Complete":
            seen.add(status["lastScheduleTime"])
        return len(seen) == 2

    kubernetes.wait(has_run_twice, "two runs")
    first, second = sorted(seen)
    assert (first[-4:], second[-4:]) == (":00Z", ":00Z")
    kubernetes("-n", reading.namespace, "delete", "dataload", "minutely", "--timeout=300s")


def test_an_image_that_is_nowhere_is_told_and_the_right_one_heals_it(
    kubernetes: Kubectl, release: Release, reading: Reading
) -> None:
    """An upgrade with a slip of the pen. The first that it takes is the master, and nobody else."""
    wrong = TEST_VALUES["image"] | {"engine": {"tag": "typo", "pullPolicy": "Never"}}
    before = _uids(reading, "worker", "mount")
    release.install({"image": wrong})
    kubernetes.wait(lambda: "typo" in _told(reading), "a word about the image")
    reading.go_on()
    assert _uids(reading, "worker", "mount") == before
    release.install()
    wait_until_ready(kubernetes, *ROLLED_OUT)
    for component in ("master", "worker", "mount"):
        await_ready(kubernetes, reading.namespace, component)
    kubernetes.wait(lambda: reading.condition("Ready")["status"] == "True", "a dataset that is ready")
    kubernetes.wait(lambda: "typo" not in _told(reading), "no complaint")
    reading.go_on()


def test_a_master_that_ends_again_and_again_is_named_by_its_dataset_with_the_last_line_of_its_log(
    kubernetes: Kubectl, reading: Reading
) -> None:
    """What it keeps in its folder is spoilt; readers go on, and another pod of it is well."""
    (master,) = parts_of(kubernetes, reading.namespace, "master")
    name, before = master["metadata"]["name"], _uids(reading, "worker", "mount")
    kubernetes("-n", reading.namespace, "exec", name, "-c", "master", "--", "python3", "-c", _SPOIL)
    said = "cannot use the state folder /var/lib/headrace/master: Is a directory"
    kubernetes.wait(lambda: said in _told(reading), "the last line of its log")
    degraded = reading.condition("Degraded")
    assert degraded["reason"] == "MasterFailed", degraded
    assert degraded["message"].startswith("the master on "), degraded
    reading.go_on()
    assert _uids(reading, "worker", "mount") == before
    kubernetes("-n", reading.namespace, "delete", "pod", name, "--grace-period=1")
    await_ready(kubernetes, reading.namespace, "master")
    kubernetes.wait(lambda: said not in _told(reading), "no complaint")
    reading.go_on()


def _load(reading: Reading, name: str, spec: Content) -> Content:
    dataset = {"name": "imagenet", "namespace": reading.namespace}
    kind = {"apiVersion": "data.fluid.io/v1alpha1", "kind": "DataLoad", "metadata": {"name": name}}
    return kind | {"spec": {"dataset": dataset, **spec}}


def _uids(reading: Reading, *components: str) -> set[str]:
    return {
        pod["metadata"]["uid"]
        for component in components or ("master", "worker", "mount")
        for pod in parts_of(reading.kubectl, reading.namespace, component)
    }


def _told(reading: Reading) -> str:
    """What the dataset says is the matter."""
    status = reading.kubectl.get("-n", reading.namespace, "dataset", "imagenet")["status"]
    return "\n".join(
        each["message"]
        for each in status["conditions"]
        if (each["type"], each["status"]) in {("Ready", "False"), ("Degraded", "True")}
    )


def _reasons_of_events(reading: Reading) -> set[str]:
    return {each["reason"] for each in reading.kubectl.get("-n", reading.namespace, "events")["items"]}
