"""Names and labels: whatever a dataset is called, Kubernetes takes what is made for it, and it is found again."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from headrace.operator.rendering.naming import DATASET_LABEL, Names, dataset_name_of
from headrace.plan.roles import RoleKind

_SERVICE = re.compile("[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL = re.compile("[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PART = st.from_regex("[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?", fullmatch=True)
DATASETS = st.lists(_PART, min_size=1, max_size=4).map(".".join).filter(lambda name: len(name) <= 253)


@given(dataset=DATASETS)
def test_whatever_it_is_called_kubernetes_takes_its_objects(dataset: str) -> None:
    names = Names("default", dataset)
    for each in (names.master, names.worker):
        assert _SERVICE.fullmatch(each)
        # A StatefulSet's pods have its name with a hash of ten digits as a label.
        assert len(f"{each}-0123456789") <= 63
    assert _LABEL.fullmatch(names.labels()[DATASET_LABEL])
    for each in (names.mount, names.token, names.options, names.settings):
        assert len(each) <= 63
    assert names.pod("worker-12") == f"{names.worker}-12"


@given(dataset=DATASETS)
def test_its_dataset_is_found_again_from_any_object(dataset: str) -> None:
    names = Names("default", dataset)
    metadata = {"labels": names.labels(RoleKind.WORKER), "annotations": names.annotations}
    assert dataset_name_of(metadata) == dataset


@given(one=DATASETS, other=DATASETS)
def test_two_datasets_share_no_object(one: str, other: str) -> None:
    if one != other:
        assert Names("default", one).stem != Names("default", other).stem
        assert Names("default", one).selector(RoleKind.MOUNT) != Names("default", other).selector(
            RoleKind.MOUNT
        )


def test_names_that_fit_are_those_that_people_know() -> None:
    names = Names("default", "imagenet")
    assert (names.master, names.worker, names.mount) == (
        "imagenet-master",
        "imagenet-worker",
        "imagenet-fuse",
    )
    assert names.annotations == {}
    assert names.token == "imagenet-headrace-token"


def test_what_is_not_ours_is_of_no_dataset() -> None:
    assert dataset_name_of({"labels": {DATASET_LABEL: "imagenet"}}) is None
    assert dataset_name_of({}) is None
