"""A dataset that is being deleted: whoever begins now is told, so that those who follow each other let it go."""

from __future__ import annotations

import pytest
from training_contexts import job_spec

from headrace.api.manifests import read_objects
from headrace.jobs.spec import DataVolume
from headrace.local.datasets.desired_state import desired_state_of
from headrace.local.datasets.leaving import leaving_text
from headrace.local.datasets.reference_index import ReferenceIndex
from headrace.local.jobs.job_volumes import volumes_of
from headrace.local.store import admission
from headrace.local.store.object_store import Store
from headrace.local.store.records import Reference

TEXT = """
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: pictures, finalizers: [somebody]}
spec: {mounts: [{mountPoint: "local:///tmp", name: a}]}
---
apiVersion: data.fluid.io/v1alpha1
kind: JindoRuntime
metadata: {name: pictures, finalizers: [somebody]}
spec: {replicas: 1}
"""


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("Dataset", "dataset default/pictures is being deleted"),
        ("JindoRuntime", "the runtime of dataset default/pictures is being deleted"),
    ],
)
def test_who_begins_now_is_told_that_it_is_being_deleted(store: Store, kind: str, said: str) -> None:
    with store.changing() as transaction:
        for thing in read_objects(TEXT, "test"):
            admission.apply(transaction, admission.wish_of(thing, "default"))
    spec = job_spec(data=(DataVolume(claim="pictures", path="/data"),))
    assert leaving_text(store, ("default", "pictures")) == ""
    assert [each.is_leaving for each in volumes_of(spec, store)] == [False]
    with store.changing() as transaction:
        transaction.delete(Reference(kind, "default", "pictures"))
    assert leaving_text(store, ("default", "pictures")) == said
    (volume,) = volumes_of(spec, store)
    assert volume.is_leaving
    assert volume.problem == f"{said}: apply it again when it is gone"


VIEW = """
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: NAME}
spec: {mounts: [{mountPoint: "dataset://default/pictures"}]}
"""


def test_who_refers_to_it_too_late_does_not_keep_it(store: Store) -> None:
    text = "---".join([TEXT, VIEW.replace("NAME", "early"), VIEW.replace("NAME", "late")])
    with store.changing() as transaction:
        for thing in read_objects(text, "test"):
            admission.apply(transaction, admission.wish_of(thing, "default"))
    shown = [{"mountPoint": "dataset://default/pictures", "name": "a"}]
    store.set_status(store.need(Reference("Dataset", "default", "early")), {"mounts": shown})
    index, key = ReferenceIndex(store), ("default", "pictures")
    index.read_all()
    assert desired_state_of(store, index, key).referrers == ("default/early", "default/late")
    with store.changing() as transaction:
        transaction.delete(Reference("Dataset", *key))
    assert desired_state_of(store, index, key).referrers == ("default/early",)
