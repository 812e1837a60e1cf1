"""What pods that use datasets get: tables for the cases that people meet, properties for all others."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_patches import patched

from headrace.api.scheduling import NodeSelector
from headrace.plan.observed import Node
from headrace.plan.selectors import fits_selector
from headrace.webhook.affinity import PREFERRED, REQUIRED
from headrace.webhook.node_preference import (
    HOST_LABEL,
    SKIP_LABEL,
    WEIGHT,
    claims_of,
    decide,
    scheduling_label,
)


def on(*nodes: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": HOST_LABEL, "operator": "In", "values": list(nodes)}]}


def preferring(*nodes: str, weight: int = WEIGHT) -> dict[str, Any]:
    return {"weight": weight, "preference": on(*nodes)}


def claim(name: str) -> dict[str, Any]:
    return {"name": f"of-{name}", "persistentVolumeClaim": {"claimName": name}}


def pod(
    *claims: str, labels: dict[str, str] | None = None, affinity: Any = None, **spec: Any
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "metadata": {"generateName": "train-"} | ({"labels": labels} if labels else {}),
        "spec": {
            "containers": [{"name": "main", "image": "main:1"}],
            "volumes": [*map(claim, claims)],
            **spec,
        },
    }
    if affinity is not None:
        found["spec"]["affinity"] = affinity
    return found


def required(*datasets: str) -> dict[str, str]:
    return {scheduling_label(name): "required" for name in datasets}


HOMES = {"imagenet": (on("a", "b"),), "coco": (on("b", "c"),), "empty": ()}
ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}
GPU = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}


def node_affinity(created: dict[str, Any]) -> Any:
    return patched(created, decide(created, HOMES).patch)["spec"].get("affinity", {}).get("nodeAffinity")


def test_a_pod_prefers_the_nodes_that_hold_its_data() -> None:
    assert node_affinity(pod("imagenet")) == {PREFERRED: [preferring("a", "b")]}


def test_the_label_of_fluid_makes_the_preference_a_must() -> None:
    assert scheduling_label("imagenet") == "fluid.io/dataset.imagenet.sched"
    assert node_affinity(pod("imagenet", labels=required("imagenet"))) == {
        REQUIRED: {"nodeSelectorTerms": [on("a", "b")]}
    }


@pytest.mark.parametrize(
    "created",
    [
        pytest.param(pod(), id="no volumes"),
        pytest.param({"metadata": {}, "spec": {"containers": []}}, id="no list of volumes"),
        pytest.param(pod("other"), id="a claim of nobody's"),
        pytest.param(pod("empty"), id="no node holds anything"),
        pytest.param(pod("imagenet", nodeName="z"), id="a node already"),
        pytest.param(
            pod("imagenet", labels=required("imagenet"), nodeName="z"), id="a node already, and a must"
        ),
        pytest.param(pod("imagenet", labels={SKIP_LABEL: "false"}), id="does not want to"),
        pytest.param(pod(labels=required("imagenet")), id="a must without a claim"),
        pytest.param(pod(volumes=[{"name": "imagenet", "emptyDir": {}}]), id="a volume of the name"),
        pytest.param(
            pod(volumes=[{"name": "imagenet", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]),
            id="an ephemeral volume",
        ),
        pytest.param(pod(volumes=[None, {"persistentVolumeClaim": None}]), id="empty entries"),
    ],
)
def test_no_patch(created: dict[str, Any]) -> None:
    created["spec"].setdefault("containers", [])
    assert decide(created, HOMES).patch == ()


def test_several_datasets_each_add_their_preference() -> None:
    assert node_affinity(pod("coco", "imagenet", "empty", "other")) == {
        PREFERRED: [preferring("b", "c"), preferring("a", "b")]
    }


def test_one_dataset_may_be_a_must_beside_another_that_is_a_wish() -> None:
    assert node_affinity(pod("coco", "imagenet", labels=required("coco"))) == {
        PREFERRED: [preferring("a", "b")],
        REQUIRED: {"nodeSelectorTerms": [on("b", "c")]},
    }


def test_two_musts_hold_together() -> None:
    found = node_affinity(pod("coco", "imagenet", labels=required("coco", "imagenet")))
    (term,) = found[REQUIRED]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [*on("b", "c")["matchExpressions"], *on("a", "b")["matchExpressions"]]


def test_a_claim_named_twice_counts_once() -> None:
    assert claims_of(pod("imagenet", "coco", "imagenet")) == ("imagenet", "coco")
    assert node_affinity(pod("imagenet", "imagenet")) == {PREFERRED: [preferring("a", "b")]}


def test_a_volume_of_an_init_container_counts() -> None:
    mount = {"name": "of-imagenet", "mountPath": "/data"}
    created = pod("imagenet", initContainers=[{"name": "look", "image": "main:1", "volumeMounts": [mount]}])
    assert node_affinity(created) == {PREFERRED: [preferring("a", "b")]}


def test_datasets_on_the_same_nodes_add_their_weights() -> None:
    homes = {"one": (on("a"),), "two": (on("a"),)}
    created = pod("one", "two")
    once = patched(created, decide(created, homes).patch)
    assert once["spec"]["affinity"]["nodeAffinity"][PREFERRED] == [preferring("a"), preferring("a")]
    assert decide(once, homes).patch == ()


@pytest.mark.parametrize(
    "affinity",
    [
        {"podAffinity": {"x": 1}},
        {"podAffinity": {"x": 1}, "nodeAffinity": None},
        {"podAffinity": {"x": 1}, "nodeAffinity": {}},
    ],
)
def test_affinity_to_pods_stays(affinity: dict[str, Any]) -> None:
    created = pod("imagenet", affinity=affinity)
    found = patched(created, decide(created, HOMES).patch)["spec"]["affinity"]
    assert found == {"podAffinity": {"x": 1}, "nodeAffinity": {PREFERRED: [preferring("a", "b")]}}


def test_what_the_author_prefers_stays_and_comes_first() -> None:
    own = {"weight": 7, "preference": ZONE}
    created = pod("imagenet", affinity={"nodeAffinity": {PREFERRED: [own]}})
    assert node_affinity(created) == {PREFERRED: [own, preferring("a", "b")]}


def test_every_alternative_of_the_author_is_restricted() -> None:
    created = pod(
        "imagenet",
        labels=required("imagenet"),
        affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [ZONE, GPU]}}},
    )
    here = on("a", "b")["matchExpressions"]
    assert node_affinity(created)[REQUIRED]["nodeSelectorTerms"] == [
        {"matchExpressions": [*ZONE["matchExpressions"], *here]},
        {"matchExpressions": [*GPU["matchExpressions"], *here]},
    ]


def test_an_empty_alternative_which_holds_nowhere_is_not_made_to_hold() -> None:
    created = pod(
        "imagenet",
        labels=required("imagenet"),
        affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}, ZONE]}}},
    )
    assert node_affinity(created)[REQUIRED]["nodeSelectorTerms"][0] == {}


DAEMON = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["z"]}]}


@pytest.mark.parametrize(
    ("affinity", "spec"),
    [
        (None, {"nodeSelector": {HOST_LABEL: "z"}}),
        ({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [on("z")]}}}, {}),
        ({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [DAEMON]}}}, {}),
    ],
    ids=["selector", "affinity", "daemon set"],
)
def test_a_pod_of_one_node_gets_no_must_and_is_told(affinity: Any, spec: dict[str, Any]) -> None:
    created = pod("imagenet", labels=required("imagenet"), affinity=affinity, **spec)
    decision = decide(created, HOMES)
    found = patched(created, decision.patch)["spec"]["affinity"]["nodeAffinity"]
    assert found == {**((affinity or {}).get("nodeAffinity") or {}), PREFERRED: [preferring("a", "b")]}
    assert "not applied" in decision.warnings[0]


def test_a_must_that_no_node_could_meet_is_no_must_but_a_warning() -> None:
    decision = decide(pod("empty", labels=required("empty")), HOMES)
    assert decision.patch == ()
    assert decision.warnings == ("fluid.io/dataset.empty.sched: not applied, no node holds data of it yet",)


@pytest.mark.parametrize("value", ["preferred", "Required", "true", ""])
def test_other_values_of_the_label_are_a_preference(value: str) -> None:
    created = pod("imagenet", labels={scheduling_label("imagenet"): value})
    assert node_affinity(created) == {PREFERRED: [preferring("a", "b")]}


NODES = st.sampled_from("abcd")
HOSTS = st.lists(NODES, min_size=1, max_size=3, unique=True).map(lambda names: on(*sorted(names)))
TERMS = st.one_of(HOSTS, st.sampled_from([ZONE, GPU, DAEMON, {}, {"matchExpressions": []}]))
SELECTORS = st.lists(TERMS, min_size=1, max_size=3).map(lambda terms: {"nodeSelectorTerms": terms})
WISHES = st.lists(
    st.builds(
        lambda term, weight: {"weight": weight, "preference": term}, TERMS, st.sampled_from([1, WEIGHT])
    ),
    max_size=3,
)
AFFINITIES = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {},
        optional={
            "podAffinity": st.just({"x": 1}),
            "nodeAffinity": st.one_of(
                st.none(), st.fixed_dictionaries({}, optional={PREFERRED: WISHES, REQUIRED: SELECTORS})
            ),
        },
    ),
)
NAMES = ["one", "two", "three"]
WORLDS = st.fixed_dictionaries({}, optional={name: st.lists(HOSTS, max_size=2).map(tuple) for name in NAMES})


@st.composite
def pods(draw: Any) -> dict[str, Any]:
    demanded = draw(st.sets(st.sampled_from(NAMES)))
    spec = {"nodeSelector": {HOST_LABEL: "a"}} if draw(st.integers(0, 5)) == 0 else {}
    claims = draw(st.lists(st.sampled_from([*NAMES, "foreign"]), max_size=4))
    return pod(*claims, labels=required(*demanded), affinity=draw(AFFINITIES), **spec)


CLUSTER = [
    Node(name, {HOST_LABEL: name} | ({"zone": "z"} if zone else {}) | ({"gpu": ""} if gpu else {}))
    for name, zone, gpu in [("a", 1, 1), ("b", 1, 0), ("c", 0, 1), ("d", 0, 0), ("z", 1, 1)]
]


def fitting(created: dict[str, Any]) -> set[str]:
    affinity = (created["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    selector = NodeSelector.model_validate(affinity[REQUIRED]) if affinity.get(REQUIRED) else None
    return {node.name for node in CLUSTER if fits_selector(node, selector)}


def without_ours(created: dict[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(created)
    affinity = found["spec"].pop("affinity", None) or {}
    node = affinity.pop("nodeAffinity", None) or {}
    node.pop(PREFERRED, None)
    node.pop(REQUIRED, None)
    return {"pod": found, "affinity": affinity, "node": node}


@given(pods(), WORLDS)
def test_nothing_but_node_affinity_changes_and_nothing_of_it_is_lost(created: Any, homes: Any) -> None:
    before = json.dumps(created)
    after = patched(created, decide(created, homes).patch)
    assert json.dumps(created) == before, "the pod itself is left alone"
    assert without_ours(after) == without_ours(created)
    present = ((created["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(PREFERRED) or []
    wishes = ((after["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(PREFERRED) or []
    assert wishes[: len(present)] == present


@given(pods(), WORLDS)
def test_asked_again_nothing_is_added(created: Any, homes: Any) -> None:
    once = patched(created, decide(created, homes).patch)
    assert decide(once, homes).patch == ()


@given(pods(), WORLDS)
def test_a_must_leaves_just_the_nodes_that_both_allow(created: Any, homes: Any) -> None:
    decision = decide(created, homes)
    allowed = fitting(created)
    labels = created["metadata"].get("labels", {})
    if not any("one node only" in warning for warning in decision.warnings):
        for name in claims_of(created):
            if homes.get(name) and scheduling_label(name) in labels:
                allowed &= fitting(
                    {"spec": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": homes[name]}}}}}
                )
    assert fitting(patched(created, decision.patch)) == allowed


@given(pods(), WORLDS)
def test_without_the_label_no_node_is_ruled_out(created: Any, homes: Any) -> None:
    created["metadata"].pop("labels", None)
    assert fitting(patched(created, decide(created, homes).patch)) == fitting(created)
