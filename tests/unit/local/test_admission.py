"""What becomes of objects that are applied, created and scaled."""

from __future__ import annotations

import json

import pytest

from headrace.api.manifests import read_objects
from headrace.errors import BusyError, ConfigError
from headrace.local.store import admission
from headrace.local.store.admission import LAST_APPLIED, Deed, wish_of
from headrace.local.store.records import Reference

DATASET = """
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: imagenet, labels: {team: a}}
spec:
  mounts:
  - {mountPoint: "s3://bucket/images", name: images, options: {aws.region: eu-1, alluxio.underfs.s3.endpoint: "http://a"}}
"""
RUNTIME = """
apiVersion: data.fluid.io/v1alpha1
kind: JindoRuntime
metadata: {name: imagenet}
spec: {replicas: 2}
"""
SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {id: topsecret, key: othersecret}
"""
IMAGENET = Reference("Dataset", "default", "imagenet")
KEYS = Reference("Secret", "default", "keys")
WORKERS = Reference("JindoRuntime", "default", "imagenet")


def apply(store, text: str, namespace: str = "default") -> list[Deed]:
    with store.changing() as transaction:
        return [
            admission.apply(transaction, wish_of(thing, namespace))[1]
            for thing in read_objects(text, "test.yaml")
        ]


def test_an_object_is_made_then_unchanged_then_changed(store) -> None:
    assert apply(store, DATASET) == [Deed.CREATED]
    before = store.need(IMAGENET)
    assert apply(store, DATASET) == [Deed.UNCHANGED]
    assert store.need(IMAGENET) == before
    assert apply(store, DATASET.replace("eu-1", "eu-2")) == [Deed.CONFIGURED]
    assert store.need(IMAGENET).generation == 2


def test_what_the_file_no_longer_says_goes_and_what_others_said_stays(store) -> None:
    apply(store, RUNTIME + "---" + DATASET)
    with store.changing() as transaction:
        present = transaction.need(IMAGENET)
        transaction.replace(
            IMAGENET, {**present.content, "spec": {**present.content["spec"], "placement": "Shared"}}
        )
    apply(store, DATASET.replace("labels: {team: a}", "annotations: {note: b}"))
    record = store.need(IMAGENET)
    assert record.content["spec"]["placement"] == "Shared"
    assert "labels" not in record.content["metadata"] or record.content["metadata"]["labels"] == {}
    assert record.content["metadata"]["annotations"]["note"] == "b"


def test_a_scaled_runtime_gets_back_what_the_file_says(store) -> None:
    apply(store, RUNTIME)
    with store.changing() as transaction:
        assert admission.scale(transaction, WORKERS, 4, current=2).content["spec"]["replicas"] == 4
    assert apply(store, RUNTIME) == [Deed.CONFIGURED]
    assert store.need(WORKERS).content["spec"]["replicas"] == 2


def test_only_runtimes_are_scaled_and_only_from_what_was_seen(store) -> None:
    apply(store, RUNTIME + "---" + DATASET)
    with store.changing() as transaction:
        with pytest.raises(ConfigError, match="has no replicas"):
            admission.scale(transaction, IMAGENET, 4)
        with pytest.raises(BusyError, match="has 2 replicas, not 3"):
            admission.scale(transaction, WORKERS, 4, current=3)


def test_the_annotation_of_a_secret_holds_its_keys_alone(store) -> None:
    apply(store, SECRET)
    record = store.need(KEYS)
    assert record.content["data"] == {"id": "dG9wc2VjcmV0", "key": "b3RoZXJzZWNyZXQ="}
    assert "stringData" not in record.content
    said = record.content["metadata"]["annotations"][LAST_APPLIED]
    assert set(json.loads(said)["data"]) == {"id", "key"}
    assert "dG9wc2VjcmV0" not in said and "topsecret" not in said


def test_a_key_that_a_secret_no_longer_has_goes(store) -> None:
    apply(store, SECRET)
    apply(store, SECRET.replace(", key: othersecret", ""))
    assert set(store.need(KEYS).content["data"]) == {"id"}


def test_another_value_of_a_secret_is_a_change(store) -> None:
    apply(store, SECRET)
    assert apply(store, SECRET.replace("topsecret", "newsecret")) == [Deed.CONFIGURED]


def test_an_immutable_secret_stays(store) -> None:
    apply(store, SECRET + "immutable: true\n")
    with pytest.raises(ConfigError, match="is immutable"):
        apply(store, SECRET.replace("topsecret", "newsecret") + "immutable: true\n")


def test_status_and_the_servers_own_fields_are_not_taken_from_files(store) -> None:
    text = DATASET.replace("{name: imagenet,", "{name: imagenet, uid: theirs, generation: 7,")
    apply(store, text + "status: {phase: Bound}\n")
    record = store.need(IMAGENET)
    assert (record.status, record.generation) == (None, 1)
    assert record.uid != "theirs"


def test_an_object_that_has_changed_since_the_file_was_written_is_left_alone(store) -> None:
    apply(store, DATASET)
    stale = DATASET.replace("{name: imagenet,", '{name: imagenet, resourceVersion: "99",')
    with pytest.raises(BusyError):
        apply(store, stale.replace("eu-1", "eu-3"))


def test_what_is_being_deleted_takes_no_changes(store) -> None:
    apply(store, DATASET)
    store.set_finalizers(store.need(IMAGENET), ["planner"])
    with store.changing() as transaction:
        transaction.delete(IMAGENET)
    with pytest.raises(BusyError, match="is being deleted"):
        apply(store, DATASET)


def test_objects_go_where_they_say_or_where_the_command_says(store) -> None:
    apply(store, DATASET, "team-a")
    apply(store, DATASET.replace("{name: imagenet,", "{name: imagenet, namespace: team-b,"), "team-a")
    for namespace in ("team-a", "team-b"):
        assert store.get(Reference("Dataset", namespace, "imagenet")) is not None


def test_a_merge_that_is_no_valid_object_is_refused(store) -> None:
    apply(store, DATASET)
    with store.changing() as transaction:
        present = transaction.need(IMAGENET)
        spec = {
            **present.content["spec"],
            "mounts": [{"mountPoint": "s3://a", "name": "x"}, {"mountPoint": "s3://b", "name": "x"}],
        }
        transaction.replace(IMAGENET, {**present.content, "spec": spec})
    invalid = DATASET.split("spec:", maxsplit=1)[0] + "spec: {accessModes: [ReadOnlyMany]}\n"
    before = store.need(IMAGENET)
    with pytest.raises(ConfigError), store.changing() as transaction:
        (thing,) = read_objects(invalid, "x")
        wish = wish_of(thing, "default")
        # The file takes nothing away that it never said, so what is wrong with the rest comes out.
        transaction.replace(IMAGENET, {**before.content, "metadata": {}})
        admission.apply(transaction, wish)
    assert store.need(IMAGENET) == before


def test_a_patch_changes_single_fields(store) -> None:
    apply(store, DATASET)
    with store.changing() as transaction:
        change = {"spec": {"placement": "Shared"}, "metadata": {"labels": {"team": None, "tier": "b"}}}
        record = admission.patch(transaction, IMAGENET, change)
    assert record.content["spec"]["placement"] == "Shared"
    assert record.content["spec"]["mounts"][0]["name"] == "images"
    assert record.content["metadata"]["labels"] == {"tier": "b"}
    assert record.generation == 2


def test_a_patch_takes_finalizers_away_from_what_is_being_deleted(store) -> None:
    apply(store, DATASET)
    store.set_finalizers(store.need(IMAGENET), ["planner"])
    with store.changing() as transaction:
        transaction.delete(IMAGENET)
        with pytest.raises(BusyError, match="is being deleted"):
            admission.patch(transaction, IMAGENET, {"spec": {"placement": "Shared"}})
        assert admission.patch(transaction, IMAGENET, {"metadata": {"finalizers": []}}) is None
    assert store.get(IMAGENET) is None


@pytest.mark.parametrize(
    "change",
    [{"kind": "Secret"}, {"status": {"phase": "Bound"}}, {"metadata": {"name": "other"}}, {"metadata": None},
     {"spec": {"mount": []}}, {"spec": {"mounts": [{"name": "x"}]}}],
)  # fmt: skip
def test_a_patch_that_may_not_be_is_refused(store, change) -> None:
    apply(store, DATASET)
    before = store.need(IMAGENET)
    with pytest.raises(ConfigError), store.changing() as transaction:
        admission.patch(transaction, IMAGENET, change)
    assert store.need(IMAGENET) == before
