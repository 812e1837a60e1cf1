from __future__ import annotations

from pathlib import Path

import pytest

from headrace.api.ignored import IGNORED, IGNORED_WITHOUT_PODS, ignored_fields
from headrace.api.kinds import KINDS
from headrace.api.manifests import read_objects
from headrace.api.shapes import fields_below

HERE = Path(__file__).parent


def test_fields_without_effect_are_named_with_their_places() -> None:
    text = """
apiVersion: data.fluid.io/v1alpha1
kind: AlluxioRuntime
metadata: {name: d}
spec:
  jvmOptions: [-Xmx1g]
  master: {replicas: 1, jvmOptions: []}
  fuse: {imageTag: "2", cleanPolicy: OnDemand}
---
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: d}
spec: {mounts: [{mountPoint: "s3://a", name: a}, {mountPoint: "s3://b", name: b, shared: true}]}
"""
    runtime, dataset = read_objects(text, "d")
    assert [field.path for field in ignored_fields(runtime)] == ["spec.jvmOptions", "spec.fuse.imageTag"]
    assert [field.path for field in ignored_fields(dataset)] == ["spec.mounts[1].shared"]


LOAD = """
apiVersion: data.fluid.io/v1alpha1
kind: KIND
metadata: {name: second}
spec:
  SPEC
  runAfter:
    kind: DataLoad
    name: first
    affinityStrategy: {policy: Require, requires: [{name: kubernetes.io/hostname}]}
"""
OPERATIONS = {
    "DataLoad": "dataset: {name: d, namespace: default}",
    "DataBackup": "dataset: d\n  backupPath: local:///b",
}


@pytest.mark.parametrize("kind", ["DataLoad", "DataBackup"])
def test_an_operation_that_wants_the_nodes_of_another_is_told(kind: str) -> None:
    (thing,) = read_objects(LOAD.replace("KIND", kind).replace("SPEC", OPERATIONS[kind]), "d")
    assert [field.path for field in ignored_fields(thing)] == ["spec.runAfter.affinityStrategy"]


def test_the_owner_of_a_dataset_and_the_pod_of_a_load_are_named() -> None:
    text = """
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: d}
spec: {owner: {uid: 5, gid: 5, user: u, group: g}, mounts: [{mountPoint: "s3://a", name: a}]}
---
apiVersion: data.fluid.io/v1alpha1
kind: DataLoad
metadata: {name: l}
spec: {dataset: {name: d, namespace: default}, nodeSelector: {disk: ssd}, schedulerName: s}
"""
    dataset, load = read_objects(text, "d")
    assert [field.path for field in ignored_fields(dataset)] == ["spec.owner"]
    assert [field.path for field in ignored_fields(load)] == ["spec.nodeSelector", "spec.schedulerName"]


@pytest.mark.parametrize("file", sorted((HERE / "seeds").glob("*.yaml")), ids=lambda file: file.stem)
def test_the_seeds_set_nothing_in_vain(file: Path) -> None:
    for thing in read_objects(file.read_text(encoding="utf-8"), file.name):
        assert ignored_fields(thing) == []


@pytest.mark.parametrize("name", list(IGNORED))
def test_the_table_names_fields_that_exist(name: str) -> None:
    fields = {path.removesuffix("[]") for path, _, _ in fields_below(KINDS[name].model)}
    assert set(IGNORED[name]) <= fields


PODS = """
apiVersion: data.fluid.io/v1alpha1
kind: AlluxioRuntime
metadata: {name: d}
spec:
  volumes: [{name: v, emptyDir: {}}]
  worker:
    resources: {requests: {cpu: "1"}}
    env: {A: b}
    networkMode: HostNetwork
    podMetadata: {labels: {a: b}}
  management: {cleanCachePolicy: {gracePeriodSeconds: 5}}
"""


@pytest.mark.parametrize("has_pods", [True, False])
def test_what_only_pods_have_is_named_where_roles_are_processes(has_pods: bool) -> None:
    (runtime,) = read_objects(PODS, "d")
    named = [field.path for field in ignored_fields(runtime, has_pods=has_pods)]
    always = ["spec.management.cleanCachePolicy", "spec.worker.networkMode"]
    of_pods = ["spec.volumes", "spec.worker.resources", "spec.worker.env", "spec.worker.podMetadata"]
    assert named == (always if has_pods else always + of_pods)


@pytest.mark.parametrize("kind", ["AlluxioRuntime", "JindoRuntime"])
@pytest.mark.parametrize(
    ("policy", "named"),
    [("OnFuseChanged", ["spec.fuse.cleanPolicy"]), ("OnRuntimeDeleted", []), ("OnDemand", []), ("", [])],
)
def test_a_clean_policy_that_is_another_one_is_named(kind: str, policy: str, named: list[str]) -> None:
    text = f"""
apiVersion: data.fluid.io/v1alpha1
kind: {kind}
metadata: {{name: d}}
spec: {{fuse: {{cleanPolicy: "{policy}"}}}}
"""
    (runtime,) = read_objects(text, "d")
    assert [field.path for field in ignored_fields(runtime)] == named


MIGRATE = """
apiVersion: data.fluid.io/v1alpha1
kind: DataMigrate
metadata: {name: m}
spec:
  from: {dataset: {name: d, namespace: default}}
  to: {externalStorage: {uri: "s3://b/c"}}
  nodeSelector: {disk: ssd}
  resources: {requests: {cpu: "1"}}
"""


@pytest.mark.parametrize("has_pods", [True, False])
def test_where_a_pod_of_a_copy_runs_is_named_where_there_is_none(has_pods: bool) -> None:
    (migrate,) = read_objects(MIGRATE, "d")
    named = [field.path for field in ignored_fields(migrate, has_pods=has_pods)]
    assert named == ([] if has_pods else ["spec.nodeSelector", "spec.resources"])


_RUNTIME = {
    "spec.replicas",
    "spec.tieredstore",
    "spec.data",
    "spec.runAs",
    "spec.secret",
    "spec.management.metadataSyncPolicy",
    *(f"spec.{role}.nodeSelector" for role in ("master", "worker", "fuse")),
    *(f"spec.{role}.tolerations" for role in ("master", "worker", "fuse")),
    *(f"spec.{role}.disabled" for role in ("worker", "fuse")),
    "spec.fuse.cleanPolicy",
}
_AFTER = {f"spec.runAfter.{field}" for field in ("apiVersion", "kind", "name", "namespace")}
_WHEN = {*_AFTER, "spec.policy", "spec.schedule", "spec.ttlSecondsAfterFinished"}
_SIDES = {f"spec.{side}.{place}" for side in ("from", "to") for place in ("dataset", "externalStorage")}
# What is read of each kind: of runtimes in plan/runtimes.py and operator/rendering, of datasets in
# plan/mount_options.py, plan/placement.py and plan/volume.py, of operations in plan/operations.py, plan/job_specs.py
# and operator/rendering.
USED = {
    "AlluxioRuntime": _RUNTIME,
    "JindoRuntime": _RUNTIME,
    "Dataset": {
        *(
            f"spec.mounts.{field}"
            for field in ("mountPoint", "name", "path", "options", "encryptOptions", "exclude")
        ),
        # Mounts are for reading, always.
        "spec.mounts.readOnly",
        "spec.sharedOptions",
        "spec.sharedEncryptOptions",
        "spec.nodeAffinity.required",
        "spec.tolerations",
        "spec.accessModes",
        "spec.placement",
        "spec.sharedWith",
        "spec.dataRestoreLocation.path",
        "spec.dataRestoreLocation.nodeName",
    },
    "DataLoad": {*_WHEN, "spec.dataset", "spec.loadMetadata", "spec.target.path", "spec.target.replicas"},
    "DataMigrate": {
        *_WHEN,
        *_SIDES,
        "spec.parallelism",
        # Of its pod, where there is one.
        *(f"spec.{name}" for name in ("podMetadata", "affinity", "tolerations", "nodeSelector")),
        *(f"spec.{name}" for name in ("schedulerName", "resources")),
    },
    "DataProcess": {
        *_WHEN,
        "spec.dataset",
        "spec.processor.serviceAccountName",
        "spec.processor.podMetadata",
        "spec.processor.job.podSpec",
        *(f"spec.processor.script.{field}" for field in ("image", "imageTag", "imagePullPolicy")),
        *(f"spec.processor.script.{field}" for field in ("restartPolicy", "command", "source", "env")),
        *(f"spec.processor.script.{field}" for field in ("volumes", "volumeMounts", "resources")),
    },
    "DataBackup": {*_AFTER, "spec.ttlSecondsAfterFinished", "spec.dataset", "spec.backupPath", "spec.runAs"},
}


@pytest.mark.parametrize("kind", list(USED))
def test_every_field_of_a_kind_is_used_or_named(kind: str) -> None:
    named = (*IGNORED.get(kind, {}), *IGNORED_WITHOUT_PODS.get(kind, {}))
    known = {*USED[kind], *(path.replace("[]", "") for path in named)}
    paths = [path.replace("[]", "") for path, _, _ in fields_below(KINDS[kind].model)]
    fields = [path for path in paths if path.startswith("spec.")]
    forgotten = [
        path
        for path in fields
        if not any(path == each or path.startswith(f"{each}.") for each in known)
        and not any(each.startswith(f"{path}.") for each in known)
    ]
    assert forgotten == []
    assert USED[kind] <= {*fields, *_RUNTIME}, "what is used exists"
