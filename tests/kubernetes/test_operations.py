"""Operations on a real cluster: copies, programs and backups as Jobs, with the chart's own rights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from charts import Release
from datasets_on_kubernetes import (
    READER_IMAGE,
    Bucket,
    HostLink,
    as_list,
    delete_pods,
    parts_of,
    runtime,
)

from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl
from headrace.testing.s3_server import S3Server

pytestmark = [pytest.mark.root, pytest.mark.slow]

BOUND = ("wait", "dataset/imagenet", "--for=jsonpath={.status.phase}=Bound", "--timeout=300s")
FILES = 480


@pytest.fixture
def bucket(cluster: Cluster, tmp_path: Path) -> Iterator[Bucket]:
    link = HostLink(cluster.host_address)
    with S3Server(tmp_path / "buckets", state=tmp_path / "state", link=link) as server:
        made = Bucket(server)
        made.fill(FILES)
        yield made


@pytest.fixture
def dataset(release: Release, kubernetes: Kubectl, namespace: str, bucket: Bucket) -> Iterator[str]:
    """The namespace of a dataset that is Bound."""
    objects = (bucket.secret(), bucket.dataset(), runtime())
    kubernetes("-n", namespace, "create", "-f", "-", stdin=as_list(*objects))
    kubernetes("-n", namespace, *BOUND, timeout_s=330)
    yield namespace
    kinds = "datamigrates,dataprocesses,databackups,dataloads"
    kubernetes("-n", namespace, "delete", kinds, "--all", "--timeout=300s", timeout_s=330)
    delete_pods(kubernetes, namespace)
    kubernetes("-n", namespace, "delete", "dataset", "--all", "--timeout=300s", timeout_s=330)


def test_a_copy_whose_pod_is_killed_goes_on_and_is_equal_byte_for_byte(
    kubernetes: Kubectl, dataset: str, bucket: Bucket
) -> None:
    copy = Bucket(bucket.server, "copied")
    keys = bucket.server.credentials
    values = {"id": keys.access_key_id, "secret": keys.secret_access_key, "path-style": "true"}
    values |= {"endpoint": bucket.server.endpoint, "region": bucket.server.region}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "target"}, "stringData": values}
    kubernetes.apply(secret, namespace=dataset)
    assert not list(copy.folder.rglob("*.bin"))
    target = {"externalStorage": {"uri": "s3://copied", "encryptOptions": _options(values)}}
    source = {"dataset": {"name": "imagenet", "namespace": dataset}}
    _declare(kubernetes, dataset, "DataMigrate", "away", {"from": source, "to": target})
    kubernetes.wait(lambda: len(list(copy.folder.rglob("*.bin"))) > 0, "the first files")
    # However fast the machine is, the copy is killed in the middle.
    bucket.server.process.freeze()
    kubernetes.wait(lambda: "Rate" in _infos(kubernetes, dataset), "how far the copy is")
    assert _infos(kubernetes, dataset)["Files"].endswith(f"/{FILES}")
    (killed,) = parts_of(kubernetes, dataset, "job")
    kubernetes("-n", dataset, "delete", "pod", killed["metadata"]["name"], "--grace-period=0", "--force")
    assert len(list(copy.folder.rglob("*.bin"))) < FILES, "it was too fast to be killed in the middle"
    bucket.server.process.thaw()
    _await(kubernetes, dataset, "datamigrate/away", "Complete")
    assert copy.digest() == bucket.digest()
    (last,) = [
        pod
        for pod in parts_of(kubernetes, dataset, "job")
        if pod["metadata"]["uid"] != killed["metadata"]["uid"]
    ]
    word = json.loads(last["status"]["containerStatuses"][0]["state"]["terminated"]["message"])
    assert 0 < word["written_bytes"] < word["total_bytes"], "the second pod began anew"
    infos = _infos(kubernetes, dataset)
    assert infos["Files"] == f"{FILES}/{FILES}"
    shown = kubernetes("-n", dataset, "get", "jobs,pods,configmaps,datamigrates,events", "-o", "json")
    assert keys.secret_access_key not in shown


@pytest.mark.short
def test_a_script_sees_all_files_after_the_load_before_it_and_the_failure_of_another_is_told(
    kubernetes: Kubectl, dataset: str
) -> None:
    place = {"name": "imagenet", "namespace": dataset}
    after = {"kind": "DataLoad", "name": "warm", "namespace": dataset}
    counting = _script(
        "find /data -type f | wc -l > /out/count; cat /out/count; id -u > /dev/null",
        volumes=[{"name": "out", "emptyDir": {}}],
        volumeMounts=[{"name": "out", "mountPath": "/out"}],
    )
    at = {"dataset": {**place, "mountPath": "/data"}}
    _declare(kubernetes, dataset, "DataProcess", "count", {**at, "runAfter": after, "processor": counting})
    _declare(
        kubernetes,
        dataset,
        "DataProcess",
        "wrong",
        {**at, "processor": _script("echo 'no such class' >&2; exit 3")},
    )
    _await(kubernetes, dataset, "dataprocess/wrong", "Failed")
    status = kubernetes.get("-n", dataset, "dataprocess", "wrong")["status"]
    assert status["infos"]["ExitCode"] == "3"
    assert any("no such class" in each["message"] for each in status["conditions"])

    def waits() -> bool:
        status = kubernetes.get("-n", dataset, "dataprocess", "count").get("status", {})
        return bool(status.get("waitingFor", {}).get("operationComplete"))

    kubernetes.wait(waits, "a word about what the other one waits for")
    assert kubernetes.get("-n", dataset, "dataprocess", "count")["status"]["phase"] == "Pending"
    _declare(kubernetes, dataset, "DataLoad", "warm", {"dataset": place})
    _await(kubernetes, dataset, "dataprocess/count", "Complete")
    status = kubernetes.get("-n", dataset, "dataprocess", "count")["status"]
    assert status["infos"]["ExitCode"] == "0"
    (pod,) = [
        each for each in parts_of(kubernetes, dataset, "job") if each["metadata"]["name"].startswith("count-")
    ]
    assert kubernetes("-n", dataset, "logs", pod["metadata"]["name"]).split() == [str(FILES)]
    assert status["infos"]["Node"] == pod["spec"]["nodeName"]


def test_a_pod_as_it_is_given_sees_the_part_that_it_asks_for_and_ends_with_its_dataprocess(
    kubernetes: Kubectl, dataset: str, bucket: Bucket
) -> None:
    container = {
        "name": "main",
        "image": READER_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", "ls /part | wc -l; exec sleep 600"],
    }
    spec = {
        "dataset": {"name": "imagenet", "namespace": dataset, "mountPath": "/part", "subPath": "class-1"},
        "processor": {"job": {"podSpec": {"containers": [container], "terminationGracePeriodSeconds": 1}}},
    }
    _declare(kubernetes, dataset, "DataProcess", "look", spec)
    kubernetes.wait(lambda: _logs(kubernetes, dataset) != "", "the first line")
    assert _logs(kubernetes, dataset).split() == [str(len(list((bucket.folder / "class-1").iterdir())))]
    phase = kubernetes.get("-n", dataset, "dataprocess", "look")["status"]["phase"]
    assert phase == "Executing"
    kubernetes("-n", dataset, "delete", "dataprocess", "look", "--timeout=300s", timeout_s=330)
    assert not parts_of(kubernetes, dataset, "job")


def test_a_copy_into_a_claim_is_equal_byte_for_byte(
    kubernetes: Kubectl, dataset: str, bucket: Bucket, cluster: Cluster
) -> None:
    volume, claim = _folder_of_a_node(dataset)
    kubernetes.apply(volume)
    kubernetes.apply(claim, namespace=dataset)
    try:
        source = {"dataset": {"name": "imagenet", "namespace": dataset, "path": "/class-2"}}
        target = {"externalStorage": {"uri": "pvc://backups/copied"}}
        _declare(kubernetes, dataset, "DataMigrate", "near", {"from": source, "to": target})
        _await(kubernetes, dataset, "datamigrate/near", "Complete")
        (pod,) = parts_of(kubernetes, dataset, "job")
        assert pod["spec"]["nodeName"] == "node-1"
        place = f"{volume['spec']['hostPath']['path']}/copied"
        listed = cluster.node("node-1").run(
            "sh", "-c", f"cd {place} && find . -name '*.bin' | xargs sha256sum"
        )
        copied = {line.split()[1]: line.split()[0] for line in listed.splitlines()}
        own = {f"./{each.name}": each for each in (bucket.folder / "class-2").iterdir()}
        assert copied == {name: hashlib.sha256(each.read_bytes()).hexdigest() for name, each in own.items()}
    finally:
        kubernetes("delete", "persistentvolume", volume["metadata"]["name"], "--wait=false")


IN_A_CLAIM, ON_A_NODE = (
    "pvc://backups/daily",
    "local:///var/lib/kubernetes-test-backups/NAMESPACE/daily",
)
OF_A_USER = {"runAs": {"uid": 1005, "gid": 1005, "user": "myuser", "group": "mygroup"}}


@pytest.mark.parametrize(
    ("place", "user"), [(IN_A_CLAIM, {}), (IN_A_CLAIM, OF_A_USER), (ON_A_NODE, OF_A_USER)]
)
def test_a_dataset_begins_from_a_backup_while_its_storage_is_down(
    kubernetes: Kubectl, dataset: str, bucket: Bucket, place: str, user: dict[str, Any]
) -> None:
    place = place.replace("NAMESPACE", dataset)
    volume, claim = _folder_of_a_node(dataset)
    kubernetes.apply(volume)
    kubernetes.apply(claim, namespace=dataset)
    try:
        backup = {"dataset": "imagenet", "backupPath": place, **user}
        _declare(kubernetes, dataset, "DataBackup", "daily", backup)
        _await(kubernetes, dataset, "databackup/daily", "Complete")
        infos = kubernetes.get("-n", dataset, "databackup", "daily")["status"]["infos"]
        node = infos["BackupLocationNodeName"]
        assert infos["BackupLocationPath"] == place
        assert place.startswith("local:") or node == "node-1"
        kubernetes("-n", dataset, "delete", "dataset", "imagenet", "--timeout=300s", timeout_s=330)
        bucket.server.stop()
        again = bucket.dataset(dataRestoreLocation={"path": place, "nodeName": node})
        kubernetes("-n", dataset, "create", "-f", "-", stdin=as_list(again, runtime(**user)))
        kubernetes("-n", dataset, *BOUND, timeout_s=330)
        kubernetes.apply(_lister(), namespace=dataset)
        kubernetes.wait(lambda: _said(kubernetes, dataset, "lister") != "", "the list")
        assert _said(kubernetes, dataset, "lister").split() == [str(FILES)]
    finally:
        kubernetes("delete", "persistentvolume", volume["metadata"]["name"], "--wait=false")


def _declare(kubectl: Kubectl, namespace: str, kind: str, name: str, spec: dict[str, Any]) -> None:
    head = {"apiVersion": "data.fluid.io/v1alpha1", "kind": kind, "metadata": {"name": name}}
    kubectl.apply({**head, "spec": spec}, namespace=namespace)


def _await(kubectl: Kubectl, namespace: str, name: str, phase: str) -> None:
    """Returns when an operation has ended so; fails at once when it ended otherwise."""

    def ended() -> bool:
        status = kubectl.get("-n", namespace, name).get("status", {})
        other = {"Complete": "Failed", "Failed": "Complete"}[phase]
        assert status.get("phase") != other, status
        return bool(status.get("phase") == phase)

    kubectl.wait(ended, f"{name} to be {phase}")


def _script(source: str, **more: Any) -> dict[str, Any]:
    image = {"image": "headrace/test-tools", "imageTag": "test", "imagePullPolicy": "Never"}
    return {"script": {**image, "command": ["sh"], "source": source, **more}}


def _options(values: dict[str, str]) -> list[dict[str, Any]]:
    names = {"id": "access-key-id", "secret": "secret-access-key"}
    return [
        {"name": names.get(key, key), "valueFrom": {"secretKeyRef": {"name": "target", "key": key}}}
        for key in values
    ]


def _logs(kubectl: Kubectl, namespace: str) -> str:
    pods = parts_of(kubectl, namespace, "job")
    return _said(kubectl, namespace, pods[0]["metadata"]["name"]) if pods else ""


def _said(kubectl: Kubectl, namespace: str, pod: str) -> str:
    phase = kubectl.get("-n", namespace, "pod", pod)["status"].get("phase")
    return kubectl("-n", namespace, "logs", pod) if phase in {"Running", "Succeeded"} else ""


def _folder_of_a_node(namespace: str) -> tuple[dict[str, Any], dict[str, Any]]:
    name = f"{namespace}-backups"
    required = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}
    size = {"storage": "1Gi"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": size,
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "hostPath": {"path": f"/var/lib/kubernetes-test-backups/{name}", "type": "DirectoryOrCreate"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [required]}]}},
        },
    }
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}, "storageClassName": ""}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "backups"},
        "spec": {**spec, "volumeName": name},
    }
    return volume, claim


def _lister() -> dict[str, Any]:
    container = {
        "name": "main",
        "image": READER_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", "find /data -type f -size +200k | wc -l"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "imagenet"}}
    spec = {"containers": [container], "restartPolicy": "Never", "volumes": [volume]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lister"}, "spec": spec}


def _infos(kubernetes: Kubectl, namespace: str) -> dict[str, str]:
    """What the status of the copy tells of it."""
    return kubernetes.get("-n", namespace, "datamigrate", "away").get("status", {}).get("infos", {})
