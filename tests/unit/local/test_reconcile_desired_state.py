"""What the store says of a dataset: whom a change matters to, claims, Secrets, and what is written of it."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.api.dataset import Dataset, DatasetPhase, DatasetStatus
from headrace.api.manifests import read_objects
from headrace.api.names import FINALIZERS
from headrace.local.datasets.claim_facts import claim_facts
from headrace.local.datasets.dataset_layout import Addresses
from headrace.local.datasets.desired_state import DesiredState, affected_datasets, desired_state_of
from headrace.local.datasets.reference_index import ReferenceIndex
from headrace.local.datasets.secret_files import secret_content, secret_facts
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.reconcile.status_writer import set_owner_reference, write_statement, write_volume
from headrace.local.store import admission
from headrace.local.store.database import Database
from headrace.local.store.event_log import EventLog
from headrace.local.store.object_store import Store
from headrace.local.store.records import Reference
from headrace.local.store.secret_values import digest_key
from headrace.local.store.volume_binder import bind
from headrace.plan.dataset_events import Event, EventType
from headrace.plan.observed import ClaimState
from headrace.plan.roles import SecretFile, SecretKey
from headrace.plan.volume import volume_of
from headrace.reconcile.world import Statement

YAML = """
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {id: one, key: two}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: nfs}
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteMany]
  nfs: {server: 10.0.0.1, path: /imagenet}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: nfs-imagenet}
spec:
  accessModes: [ReadWriteMany]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: shop}
spec:
  mounts: [{mountPoint: "pvc://nfs-imagenet", name: images}]
  sharedEncryptOptions: [{name: aws.secretKey, valueFrom: {secretKeyRef: {name: keys, key: key}}}]
---
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: borrowed}
spec: {mounts: [{mountPoint: "dataset://default/shop", name: images}]}
---
apiVersion: data.fluid.io/v1alpha1
kind: JindoRuntime
metadata: {name: shop}
spec: {replicas: 1}
---
apiVersion: data.fluid.io/v1alpha1
kind: DataLoad
metadata: {name: warm}
spec: {dataset: {name: shop, namespace: default}}
"""
SHOP, BORROWED = ("default", "shop"), ("default", "borrowed")


def relations_of(store: Store) -> ReferenceIndex:
    """What a supervisor knows that has just started."""
    index = ReferenceIndex(store)
    index.read_all()
    return index


def seen(store: Store, key: tuple[str, str]) -> DesiredState:
    return desired_state_of(store, relations_of(store), key)


@pytest.fixture
def filled(store: Store) -> Store:
    with store.changing() as transaction:
        for thing in read_objects(YAML, "test"):
            admission.apply(transaction, admission.wish_of(thing, "default"))
    return store


@pytest.mark.parametrize(
    ("changed", "whom"),
    [
        (Reference("Dataset", "default", "shop"), {SHOP, BORROWED}),
        (Reference("Dataset", "default", "borrowed"), {BORROWED}),
        (Reference("JindoRuntime", "default", "shop"), {SHOP}),
        (Reference("DataLoad", "default", "warm"), {SHOP}),
        (Reference("Secret", "default", "keys"), {SHOP, BORROWED}),
        (Reference("Secret", "other", "keys"), set()),
        (Reference("PersistentVolume", "", "nfs"), {SHOP, BORROWED}),
    ],
)
def test_whom_a_change_matters_to(filled: Store, changed: Reference, whom: set[Any]) -> None:
    bind(filled)
    assert affected_datasets(relations_of(filled), changed) == whom


def test_a_scene_knows_its_runtime_operations_and_referrers(filled: Store) -> None:
    desired = seen(filled, SHOP)
    assert desired.runtime is not None
    assert desired.runtime.reference.kind == "JindoRuntime"
    assert [each.reference.name for each in desired.operations] == ["warm"]
    assert desired.referrers == ("default/borrowed",)
    borrowed = seen(filled, BORROWED).declared
    assert borrowed is not None
    assert set(borrowed.references) == {"default/shop"}


def test_nothing_declared_is_no_scene_to_plan(filled: Store) -> None:
    assert seen(filled, ("default", "nobody")).declared is None


def test_a_claim_waits_for_its_volume_and_then_has_its_address(filled: Store) -> None:
    before = claim_facts(seen(filled, SHOP))["nfs-imagenet"]
    bind(filled)
    after = claim_facts(seen(filled, SHOP))["nfs-imagenet"]
    assert (before.state, after.state) == (ClaimState.PENDING, ClaimState.PRESENT)
    assert after.address == "nfs://10.0.0.1/imagenet"


def test_facts_of_a_secret_change_with_its_values_and_hold_none(filled: Store, database: Database) -> None:
    key = digest_key(database)
    assert key == digest_key(database)
    before = secret_facts(seen(filled, SHOP), key)["keys"]
    (secret,) = read_objects(YAML.split("---", maxsplit=1)[0].replace("two", "three"), "test")
    with filled.changing() as transaction:
        admission.apply(transaction, admission.wish_of(secret, "default"))
    desired = seen(filled, SHOP)
    after = secret_facts(desired, key)["keys"]
    assert before.keys == after.keys == {"id", "key"}
    changed = {each for each in before.keys if before.digests[each] != after.digests[each]}
    assert changed == {"key"}
    file = SecretFile("", {"aws.secretKey": SecretKey("keys", "key")})
    assert secret_content(file, desired, {}) == b'{"aws.secretKey": "three"}'


def test_status_event_finalizer_and_volume_are_written_together(filled: Store, database: Database) -> None:
    desired = seen(filled, SHOP)
    assert desired.dataset is not None
    dataset = desired.dataset.thing()
    assert isinstance(dataset, Dataset)
    event = Event("Dataset", EventType.NORMAL, "Ready", "it can be read")
    with filled.changing() as transaction:
        write_volume(transaction, desired, volume_of(dataset))
        write_statement(
            transaction,
            Statement.of(
                dataset,
                DatasetStatus(phase=DatasetPhase.BOUND),
                (event,),
                ("fluid-dataset-controller-finalizer",),
            ),
            None,
        )
    bind(filled)
    again = seen(filled, SHOP)
    assert again.dataset is not None
    assert (again.dataset.status or {})["phase"] == "Bound"
    assert again.dataset.finalizers == (FINALIZERS["Dataset"],)
    volume, claim = again.find("PersistentVolume", "shop", ""), again.find("PersistentVolumeClaim", "shop")
    assert volume is not None and claim is not None
    assert [(each.status or {})["phase"] for each in (volume, claim)] == ["Bound", "Bound"]
    assert [each.reason for each in EventLog(database).select("default", desired.dataset.reference)] == [
        "Ready"
    ]
    with filled.changing() as transaction:
        write_volume(transaction, again, None)
    gone = seen(filled, SHOP)
    assert gone.find("PersistentVolume", "shop", "") is None
    assert gone.find("PersistentVolumeClaim", "shop") is None
    assert gone.find("PersistentVolumeClaim", "nfs-imagenet") is not None


def test_the_second_writing_of_the_same_changes_nothing(filled: Store) -> None:
    for _ in range(2):
        desired = seen(filled, SHOP)
        assert desired.dataset is not None
        dataset = desired.dataset.thing()
        assert isinstance(dataset, Dataset)
        with filled.changing() as transaction:
            write_volume(transaction, desired, volume_of(dataset))
            write_statement(
                transaction,
                Statement.of(
                    dataset,
                    DatasetStatus(phase=DatasetPhase.BOUND),
                    (),
                    (FINALIZERS["Dataset"],),
                ),
                None,
            )
        bind(filled)
        versions = [record.resource_version for record in desired.records]
    assert [record.resource_version for record in seen(filled, SHOP).records] == versions


def test_a_claim_of_a_person_under_the_name_of_a_dataset_stays(filled: Store) -> None:
    dataset = Dataset.model_validate(
        {"metadata": {"name": "nfs-imagenet", "namespace": "default"}, "spec": {}}
    )
    bind(filled)
    desired = seen(filled, ("default", "nfs-imagenet"))
    with filled.changing() as transaction:
        write_volume(transaction, desired, volume_of(dataset))
        write_volume(transaction, desired, None)
    assert seen(filled, SHOP).find("PersistentVolumeClaim", "nfs-imagenet") is not None


def test_a_dataset_that_is_not_referred_to_any_more_hears_of_it(filled: Store) -> None:
    index = relations_of(filled)
    borrowed = filled.need(Reference("Dataset", *BORROWED))
    with filled.changing() as transaction:
        transaction.replace(
            borrowed.reference, {"spec": {"mounts": [{"mountPoint": "s3://else", "name": "images"}]}}
        )
    assert affected_datasets(index, borrowed.reference) == {SHOP, BORROWED}
    assert desired_state_of(filled, index, SHOP).referrers == ()
    assert affected_datasets(index, borrowed.reference) == {BORROWED}


def test_a_scene_holds_nothing_of_others(filled: Store) -> None:
    with filled.changing() as transaction:
        for kind in ("Secret", "Dataset", "PersistentVolumeClaim", "DataLoad"):
            transaction.create(Reference(kind, "default", "strange"), _STRANGE[kind])
    found = {str(record.reference) for record in seen(filled, SHOP).records}
    assert not [each for each in found if "strange" in each]
    assert len(found) == 5


_STRANGE: dict[str, dict[str, Any]] = {
    "Secret": {"data": {}},
    "Dataset": {"spec": {}},
    "PersistentVolumeClaim": {"spec": {"accessModes": ["ReadWriteMany"]}},
    "DataLoad": {"spec": {"dataset": {"name": "strange"}}},
}


def test_ports_are_kept_while_a_role_stays_on_its_node(database: Database, tmp_path: Any) -> None:
    nodes = [VirtualNode(f"node-{n}", n, f"198.18.0.{n}", {}, tmp_path, namespace="there") for n in (1, 2)]
    addresses = Addresses(database)
    first, second = addresses.take("a", nodes[0]), addresses.take("b", nodes[0])
    assert first != second
    assert addresses.take("a", nodes[0]) == first == Addresses(database).find("a")
    assert addresses.take("a", nodes[1]) == "198.18.0.2:8700"
    addresses.give_back("b")
    assert addresses.take("c", nodes[0]) == first


def test_a_dataset_owns_its_runtime_and_its_operations_until_it_leaves(filled: Store) -> None:
    desired = seen(filled, SHOP)
    assert desired.dataset is not None
    assert desired.runtime is not None
    for _ in range(2):
        with filled.changing() as transaction:
            set_owner_reference(transaction, desired.runtime, desired.dataset)
    (owner,) = filled.need(desired.runtime.reference).document()["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Dataset", "shop", desired.dataset.uid)
    (thing,) = (each for each in read_objects(YAML, "test") if each.kind == desired.runtime.reference.kind)
    with filled.changing() as transaction:
        assert admission.apply(transaction, admission.wish_of(thing, "default"))[1] == "unchanged"
        transaction.delete(desired.dataset.reference)
    left = filled.get(desired.runtime.reference)
    assert left is None or left.deleted is not None
