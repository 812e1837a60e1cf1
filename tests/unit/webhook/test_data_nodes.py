"""Where datasets are at home, as their objects say."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.operator import status_writer
from headrace.operator.rendering import naming
from headrace.webhook import data_nodes
from headrace.webhook.data_nodes import homes_of, terms_of


def selector(*terms: Any) -> dict[str, Any]:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}


def hosts(*values: str, key: str = "kubernetes.io/hostname", operator: str = "In") -> dict[str, Any]:
    return {
        "matchExpressions": [{"key": key, "operator": operator} | ({"values": [*values]} if values else {})]
    }


def dataset(*addresses: str) -> dict[str, Any]:
    return {"spec": {"mounts": [{"mountPoint": each} for each in addresses]}}


def runtime(*nodes: str) -> dict[str, Any]:
    return {"status": {"cacheAffinity": selector(hosts(*nodes))}}


def claim(maker: str = "headrace-operator") -> dict[str, Any]:
    return {"metadata": {"labels": {"app.kubernetes.io/managed-by": maker}}}


def found(**changes: Any) -> Any:
    world: dict[str, Any] = {
        "datasets": {("ml", "imagenet"): dataset("oss://bucket/x")},
        "runtimes": [{}, {("ml", "imagenet"): runtime("a", "b")}],
        "volumes": {("ml", "imagenet"): claim()},
    }
    return homes_of("ml", ("imagenet", "scratch"), **world | changes)


def test_a_dataset_is_at_home_where_the_status_of_its_runtime_says() -> None:
    assert found() == {"imagenet": (hosts("a", "b"),)}


@pytest.mark.parametrize(
    "changes",
    [
        {"datasets": {}},
        {"datasets": {("other", "imagenet"): dataset("oss://bucket/x")}},
        {"volumes": {}},
        {"volumes": {("ml", "imagenet"): {"metadata": {}}}},
        {"volumes": {("ml", "imagenet"): claim("Helm")}},
    ],
    ids=["no dataset", "of another namespace", "no claim", "somebody's own claim", "that another tool made"],
)
def test_a_claim_that_is_no_datasets_has_no_home(changes: Any) -> None:
    assert found(**changes) == {}


@pytest.mark.parametrize(
    "runtimes", [[], [{}], [{("ml", "imagenet"): {}}], [{("x", "imagenet"): runtime("a")}]]
)
def test_a_dataset_without_workers_is_at_home_nowhere(runtimes: Any) -> None:
    assert found(runtimes=runtimes) == {"imagenet": ()}


def test_a_reference_is_at_home_where_the_other_dataset_is() -> None:
    changes = {
        "datasets": {("ml", "imagenet"): dataset("dataset://data/corpus/train")},
        "runtimes": [{("data", "corpus"): runtime("c")}],
    }
    assert found(**changes) == {"imagenet": (hosts("c"),)}


def test_a_reference_to_nothing_is_at_home_nowhere() -> None:
    assert found(datasets={("ml", "imagenet"): dataset("dataset://data")}, runtimes=[]) == {"imagenet": ()}


@pytest.mark.parametrize(
    "status",
    [
        None,
        "nodes",
        {},
        selector(),
        selector({}),
        selector(hosts()),
        selector(hosts("not a label")),
        selector(hosts("a", key="no key!")),
        selector(hosts("a", key="x" * 254 + "/host")),
        selector(hosts("a", operator="Exists")),
        selector(hosts("a", operator="Near")),
        selector({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}),
    ],
)
def test_a_status_that_the_api_server_would_refuse_in_a_pod_says_nothing(status: Any) -> None:
    assert terms_of(status) == ()


def test_a_name_that_no_label_can_hold_is_left_out() -> None:
    assert terms_of(selector(hosts("a", "b" * 64))) == (hosts("a"),)


def test_each_term_is_an_alternative_with_nothing_empty_in_it() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "Exists", "values": None}], "matchFields": []}
    assert terms_of(selector(hosts("a"), zone)) == (hosts("a"), hosts(key="zone", operator="Exists"))


def test_the_operator_labels_its_claims_so() -> None:
    """Operator and webhook do not know each other; what they must agree on is said here."""
    assert (naming.MANAGED_LABEL, status_writer.COMPONENT) == (data_nodes.MANAGED_LABEL, data_nodes.OPERATOR)
