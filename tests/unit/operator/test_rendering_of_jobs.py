"""The Jobs of operations: what their pods run, see and may do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from headrace.api.databackup import DataBackup
from headrace.api.datamigrate import DataMigrate
from headrace.api.dataprocess import DataProcess
from headrace.api.dataset import Dataset
from headrace.api.manifests import object_of
from headrace.errors import UnsupportedError
from headrace.operator.rendering import job_objects
from headrace.operator.rendering.backup_objects import backup_objects
from headrace.operator.rendering.copy_objects import CopyPlan, copy_objects
from headrace.operator.rendering.naming import Names
from headrace.operator.rendering.process_objects import process_objects
from headrace.operator.rendering.render_context import RenderContext
from headrace.operator.rendering.restoring import restoring
from headrace.operator.settings import Image, OperatorSettings
from headrace.plan.job_specs import CopyJob, CopyPlace, ProcessJob
from headrace.plan.roles import PlainOption, Role, RoleKind, SecretFile, SecretKey
from headrace.settings.roles import MasterSettings, OriginSettings

NAMES = Names("default", "imagenet")
SETTINGS = OperatorSettings("headrace-system", "me", Image("headrace/engine:1"))
SURROUNDINGS = RenderContext(SETTINGS, "http://10.0.0.1:8700")
KEYS = SecretFile("", {"access-key-id": SecretKey("keys", "id")})
CLEAR = SecretFile("", {"secret-access-key": PlainOption("default/imagenet", 0, "secret-access-key")})
BUCKET = CopyPlace(origin=OriginSettings(origin="s3://copied"), secrets=(KEYS,))


def operation(kind: str, spec: dict[str, Any], name: str = "daily") -> Any:
    metadata = {"name": name, "namespace": "default", "uid": "11-22-33"}
    content = {"apiVersion": "data.fluid.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
    return object_of(content, kind)


def migrate(**more: Any) -> DataMigrate:
    source = {"dataset": {"name": "imagenet", "namespace": "default"}}
    spec = {"from": source, "to": {"externalStorage": {"uri": "s3://copied"}}, **more}
    return cast("DataMigrate", operation("DataMigrate", spec))


def copy_plan(source: CopyPlace | None = None, target: CopyPlace = BUCKET, **more: Any) -> CopyPlan:
    job = CopyJob(source or CopyPlace(cluster="default/imagenet", path="train"), target, 2)
    plan = CopyPlan(migrate(), job, NAMES, SURROUNDINGS, ("node-1", "node-2"), "node-2")
    return replace(plan, **more)


def spec_of(job: dict[str, Any]) -> dict[str, Any]:
    return dict(job["spec"]["template"]["spec"])


def volume(job: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in spec_of(job)["volumes"] if each["name"] == name)


def test_names_fit_into_a_label_whatever_the_operation_is_called() -> None:
    name = "a" * 39 + ".b" * 10
    made = operation("DataMigrate", migrate().model_dump(by_alias=True, exclude_unset=True)["spec"], name)
    assert len(job_objects.job_name(made, "1769851800")) <= 63
    assert "." not in job_objects.job_name(made, "once")
    assert job_objects.job_name(made, "once") != job_objects.job_name(made, "1769851800")


def test_a_job_is_owned_by_its_operation_and_its_pods_are_no_roles() -> None:
    _, job = copy_objects(copy_plan(), "once", {})
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("DataMigrate", "11-22-33")
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == "job"
    assert labels["headrace.io/operation"] == "11-22-33"
    assert labels["headrace.io/dataset"] == "imagenet"


def test_a_copy_reads_through_the_cluster_and_has_secrets_as_files_alone() -> None:
    (settings,), job = copy_objects(copy_plan(), "once", {})
    told = json.loads(settings["data"]["copy.yaml"])
    assert (told["master"], told["source_path"], told["files"]) == ("http://10.0.0.1:8700", "train", 32)
    assert (told["target"]["origin"], told["target"]["secret_file"]) == (
        "s3://copied",
        "/etc/headrace/secrets/0",
    )
    secret = volume(job, "token")["secret"]
    assert secret["secretName"] == "imagenet-headrace-token"
    assert secret["items"] == [{"key": "reader", "path": "token"}]
    (source,) = volume(job, "secrets-0")["projected"]["sources"]
    assert source["secret"] == {"name": "keys", "items": [{"key": "id", "path": "access-key-id"}]}
    assert spec_of(job)["automountServiceAccountToken"] is False
    (port,) = spec_of(job)["containers"][0]["ports"]
    assert told["progress_address"] == f"0.0.0.0:{port['containerPort']}"


def test_options_in_clear_go_into_a_secret_of_the_operation() -> None:
    mount = {"mountPoint": "s3://b", "name": "b", "options": {"secret-access-key": "very secret"}}
    content = {"metadata": {"name": "imagenet", "namespace": "default"}, "spec": {"mounts": [mount]}}
    head = {"apiVersion": "data.fluid.io/v1alpha1", "kind": "Dataset"}
    dataset = cast("Dataset", object_of({**head, **content}, "Dataset"))
    target = CopyPlace(origin=OriginSettings(origin="s3://b"), secrets=(CLEAR,))
    made, job = copy_objects(copy_plan(target=target), "once", {"default/imagenet": dataset})
    settings, secret = made
    assert secret["kind"] == "Secret"
    assert list(secret["stringData"].values()) == ["very secret"]
    assert "very secret" not in json.dumps([settings, job])
    assert volume(job, "secrets-0")["projected"]["sources"][0]["secret"]["name"] == secret["metadata"]["name"]


def test_ledger_stays_on_a_node_that_is_swept_with_the_dataset() -> None:
    _, job = copy_objects(copy_plan(), "once", {})
    assert volume(job, "state")["hostPath"]["path"] == (
        "/var/lib/headrace/state/default/imagenet/copies/daily"
    )
    affinity = spec_of(job)["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchFields"][0]["values"] for term in terms] == [["node-1"], ["node-2"]]
    (preferred,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["preference"]["matchFields"][0]["values"] == ["node-2"]


@pytest.mark.parametrize(
    "more",
    [
        {"nodes": ()},
        {"operation": migrate(nodeSelector={"disk": "fast"})},
        {"operation": migrate(affinity={"podAffinity": {}})},
    ],
)
def test_ledger_goes_with_the_pod_where_other_nodes_are_asked_for(more: dict[str, Any]) -> None:
    _, job = copy_objects(copy_plan(**more), "once", {})
    assert volume(job, "state")["emptyDir"] == {}


def test_a_claim_is_mounted_to_be_written_and_only_as_a_target() -> None:
    source = CopyPlace(origin=OriginSettings(origin="local:///claims/raw/2026"))
    target = CopyPlace(origin=OriginSettings(origin="local:///claims/kept"))
    _, job = copy_objects(copy_plan(source, target), "once", {})
    claims = [each["persistentVolumeClaim"] for each in spec_of(job)["volumes"] if "claim-" in each["name"]]
    assert claims == [
        {"claimName": "kept", "readOnly": False},
        {"claimName": "raw", "readOnly": True},
    ]
    assert "hostPath" not in volume(job, "state")


def test_a_folder_of_no_claim_is_refused() -> None:
    target = CopyPlace(origin=OriginSettings(origin="local:///var/data"))
    with pytest.raises(UnsupportedError, match="no node in particular"):
        copy_objects(copy_plan(target=target), "once", {})


def test_an_answer_of_ours_is_final_and_a_kill_is_tried_again() -> None:
    _, job = copy_objects(copy_plan(), "once", {})
    disruption, exits = job["spec"]["podFailurePolicy"]["rules"]
    assert disruption["action"] == "Ignore"
    assert exits["action"] == "FailJob"
    assert exits["onExitCodes"]["operator"] == "NotIn"
    assert {137, 143, 130} <= set(exits["onExitCodes"]["values"])
    assert not {1, 2, 11} & set(exits["onExitCodes"]["values"])
    assert spec_of(job)["restartPolicy"] == "Never"


def process(processor: dict[str, Any], **dataset: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    place = {"name": "imagenet", "mountPath": "/data", **dataset}
    made = cast("DataProcess", operation("DataProcess", {"dataset": place, "processor": processor}))
    program = made.spec.processor.script or made.spec.processor.job
    assert program is not None
    order = ProcessJob(
        "default/imagenet", "/data", dataset.get("subPath", ""), program, processor.get("serviceAccountName")
    )
    return process_objects(made, order, "once", NAMES, SURROUNDINGS)


def test_a_script_is_a_file_and_all_that_it_asks_for_is_there() -> None:
    script = {
        "image": "python",
        "imageTag": "3.12",
        "restartPolicy": "OnFailure",
        "command": ["bash", "-e"],
        "source": "echo hi",
        "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}],
        "volumes": [{"name": "out", "emptyDir": {}}],
        "volumeMounts": [{"name": "out", "mountPath": "/out"}],
        "resources": {"limits": {"memory": "1Gi"}},
    }
    (files,), job = process({"script": script, "podMetadata": {"labels": {"team": "a"}}})
    (container,) = spec_of(job)["containers"]
    assert container["image"] == "python:3.12"
    assert container["command"] == ["bash", "-e", "/etc/headrace/script/script"]
    assert files["data"] == {"script": "echo hi"}
    assert container["env"] == script["env"]
    assert container["resources"]["limits"] == {"memory": "1Gi"}
    assert {each["mountPath"] for each in container["volumeMounts"]} == {
        "/out",
        "/data",
        "/etc/headrace/script",
    }
    assert (spec_of(job)["restartPolicy"], job["spec"]["backoffLimit"]) == ("OnFailure", 3)
    assert job["spec"]["template"]["metadata"]["labels"]["team"] == "a"
    # The rules are for exit codes that are known, and Kubernetes takes them with restartPolicy Never alone.
    assert "podFailurePolicy" not in job["spec"]


def test_a_script_runs_once_in_a_shell_when_nothing_else_is_said() -> None:
    _, job = process({"script": {"source": "true"}})
    (container,) = spec_of(job)["containers"]
    assert container["command"][0] == "/bin/sh"
    assert (spec_of(job)["restartPolicy"], job["spec"]["backoffLimit"]) == ("Never", 0)


def test_a_pod_keeps_all_that_it_says_and_gets_the_dataset_in_each_container() -> None:
    given = {
        "hostNetwork": True,
        "initContainers": [{"name": "first", "image": "a"}],
        "containers": [
            {"name": "main", "image": "b", "volumeMounts": [{"name": "x", "mountPath": "/x"}]},
            {"name": "side", "image": "c", "terminationMessagePolicy": "File"},
        ],
        "volumes": [{"name": "x", "emptyDir": {}}],
    }
    _, job = process({"job": {"podSpec": given}, "serviceAccountName": "trainer"}, subPath="train")
    spec = spec_of(job)
    assert (spec["hostNetwork"], spec["serviceAccountName"]) == (True, "trainer")
    for each in (*spec["initContainers"], *spec["containers"]):
        assert each["volumeMounts"][-1]["mountPath"] == "/data"
        assert each["volumeMounts"][-1]["subPath"] == "train"
    assert spec["containers"][1]["terminationMessagePolicy"] == "File"
    assert spec["containers"][0]["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert volume(job, "headrace-dataset")["persistentVolumeClaim"] == {"claimName": "imagenet"}


@pytest.mark.parametrize(
    ("place", "source", "folder"),
    [
        (
            "pvc://backups/a/b",
            {"persistentVolumeClaim": {"claimName": "backups", "readOnly": False}},
            "/backup/a/b",
        ),
        (
            "local:///var/lib/headrace/backups/default/daily",
            {"hostPath": {"path": "/var/lib/headrace/backups", "type": "DirectoryOrCreate"}},
            "/backup",
        ),
    ],
)
def test_a_backup_is_written_where_it_is_asked_for(place: str, source: dict[str, Any], folder: str) -> None:
    owner = {"uid": 7, "gid": 8, "user": "u", "group": "g"}
    made = operation("DataBackup", {"dataset": "imagenet", "backupPath": place, "runAs": owner})
    job = backup_objects(cast("DataBackup", made), "once", NAMES, SURROUNDINGS, "node-1")
    (container,) = spec_of(job)["containers"]
    words = dict(zip(container["args"][1::2], container["args"][2::2], strict=True))
    assert (words["--folder"], words["--owner"], words["--dataset"]) == (folder, "7:8", "default/imagenet")
    assert volume(job, "backup") == {"name": "backup", **source}
    (mount,) = (each for each in container["volumeMounts"] if each["name"] == "backup")
    assert mount.get("subPath") == ("default/daily" if place.startswith("local:") else None)
    on_master = "nodeAffinity" in spec_of(job).get("affinity", {})
    assert on_master is place.startswith("local:")


def test_a_master_begins_from_a_backup_only_when_one_is_named() -> None:
    settings = MasterSettings(cluster="default-imagenet", origins=())
    role = Role("master", RoleKind.MASTER, None, settings, "default/imagenet")
    assert restoring(role, NAMES, SURROUNDINGS, {}) == ([], [])
    volumes, (container,) = restoring(
        replace(role, restore_from="pvc://backups/daily"), NAMES, SURROUNDINGS, {"runAsUser": 7}
    )
    assert volumes[0]["persistentVolumeClaim"] == {"claimName": "backups", "readOnly": True}
    assert container["args"][-2:] == ["--to", "/var/lib/headrace/master/engine"]
    assert container["securityContext"] == {"runAsUser": 7}
