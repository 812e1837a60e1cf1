"""The small rules that plans are made of: selectors, taints, tiers, options, addresses, reasons."""

from __future__ import annotations

from typing import Any

import pytest
from planned import SEED, World, changed, objects

from headrace.api.scheduling import NodeSelector, Toleration
from headrace.engine.uris import SCHEMES
from headrace.plan.cache_folders import cache_folders
from headrace.plan.mount_addresses import KIND_OF_SCHEME, carries_credentials, without_credentials
from headrace.plan.mount_options import options_of
from headrace.plan.node_names import natural_order
from headrace.plan.observed import Node, Taint
from headrace.plan.reasons import MEANINGS, Reason, Wait
from headrace.plan.role_settings import cluster_name
from headrace.plan.roles import CacheFolder, PlainOption, SecretKey, plain_value
from headrace.plan.runtimes import KINDS, wanted_of
from headrace.plan.selectors import fits_selector, is_tolerated

NODE = Node("node-1", {"zone": "a", "gpus": "8", "spot": ""})


@pytest.mark.parametrize(
    ("requirement", "fits"),
    [
        ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "zone", "operator": "In", "values": ["b"]}, False),
        ({"key": "rack", "operator": "In", "values": ["b"]}, False),
        ({"key": "zone", "operator": "NotIn", "values": ["b"]}, True),
        ({"key": "rack", "operator": "NotIn", "values": ["b"]}, True),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "spot", "operator": "Exists"}, True),
        ({"key": "rack", "operator": "Exists"}, False),
        ({"key": "rack", "operator": "DoesNotExist"}, True),
        ({"key": "spot", "operator": "DoesNotExist"}, False),
        ({"key": "gpus", "operator": "Gt", "values": ["7"]}, True),
        ({"key": "gpus", "operator": "Gt", "values": ["8"]}, False),
        ({"key": "gpus", "operator": "Lt", "values": ["9"]}, True),
        ({"key": "zone", "operator": "Lt", "values": ["9"]}, False),
        ({"key": "rack", "operator": "Gt", "values": ["0"]}, False),
    ],
)
def test_each_operator_of_a_selector(requirement: dict[str, Any], fits: bool) -> None:
    selector = NodeSelector.model_validate({"nodeSelectorTerms": [{"matchExpressions": [requirement]}]})
    assert fits_selector(NODE, selector) is fits


def test_one_term_is_enough_and_an_empty_one_never_holds() -> None:
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    assert fits_selector(NODE, NodeSelector.model_validate({"nodeSelectorTerms": [{}, by_name]}))
    assert not fits_selector(NODE, NodeSelector.model_validate({"nodeSelectorTerms": [{}]}))


@pytest.mark.parametrize(
    ("taint", "toleration", "tolerated"),
    [
        (Taint("gpu", "v100"), {"key": "gpu", "operator": "Exists"}, True),
        (Taint("gpu", "v100"), {"key": "gpu", "value": "v100"}, True),
        (Taint("gpu", "v100"), {"key": "gpu", "value": "a100"}, False),
        (Taint("gpu", "v100"), {"operator": "Exists"}, True),
        (Taint("gpu", "v100"), {"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        (Taint("gpu", "v100", "PreferNoSchedule"), {"key": "other", "operator": "Exists"}, True),
    ],
)
def test_taints_keep_off_what_does_not_tolerate_them(
    taint: Taint, toleration: dict[str, Any], tolerated: bool
) -> None:
    node = Node("node-1", taints=(taint,))
    assert is_tolerated(node, [Toleration.model_validate(toleration)]) is tolerated


def test_what_runs_is_ended_by_no_execute_alone() -> None:
    assert is_tolerated(Node("n", taints=(Taint("gpu"),)), [], running=True)
    assert not is_tolerated(Node("n", taints=(Taint("gpu", effect="NoExecute"),)), [], running=True)


def folders(*levels: dict[str, Any], kind: str = "AlluxioRuntime") -> list[CacheFolder]:
    runtime = changed(objects(SEED.replace("JindoRuntime", kind))[1], tieredstore={"levels": list(levels)})
    made = cache_folders(wanted_of(runtime), "default/imagenet", None)
    assert not isinstance(made, Wait)
    return list(made)


def test_quota_is_split_evenly_over_paths_and_a_list_says_each() -> None:
    even = folders({"mediumtype": "SSD", "path": "/a,/b", "quota": "100Gi"})
    assert [(each.folder, each.quota_bytes) for each in even] == [
        ("/a/default/imagenet", 50 << 30),
        ("/b/default/imagenet", 50 << 30),
    ]
    each = folders({"mediumtype": "SSD", "path": "/a,/b", "quota": "1Gi", "quotaList": "10Gi,20Gi"})
    assert [folder.quota_bytes for folder in each] == [10 << 30, 20 << 30]


def test_every_level_is_kept_in_its_order_with_its_own_marks() -> None:
    made = folders(
        {"mediumtype": "MEM", "path": "/dev/shm", "quota": "8Gi", "high": "0.9", "low": "0.7"},
        {"mediumtype": "HDD", "path": "/hdd", "quota": "1Ti", "high": "0.5"},
    )
    assert [(each.medium, each.high) for each in made] == [("MEM", 0.9), ("HDD", 0.5)]
    assert all(each.low < each.high for each in made)
    assert str(made[0].word("/node-1/shm")) == f"/node-1/shm:{8 << 30}:MEM:0.9-0.7"


@pytest.mark.parametrize(
    ("quota", "alluxio", "jindo"),
    [
        ("180G", 180 * 10**9, 162 << 30),
        ("180Gi", 180 << 30, 162 << 30),
        ("180GB", 180 * 10**9, 162 << 30),
        (1000, 1000, 900),
    ],
)
def test_kinds_of_runtimes_count_as_their_users_do(quota: Any, alluxio: int, jindo: int) -> None:
    assert KINDS["AlluxioRuntime"].bytes_of(quota) == alluxio
    assert KINDS["JindoRuntime"].bytes_of(quota) == jindo


def test_what_weighs_more_among_options_of_one_mount() -> None:
    dataset = changed(
        objects(SEED)[0],
        sharedOptions={"fs.oss.endpoint": "shared", "fs.oss.accessKeyId": "in clear"},
        sharedEncryptOptions=[{"name": "fs.oss.securityToken", "valueFrom": {"secretKeyRef": {"name": "s"}}}],
    )
    made = options_of("oss", dataset, "default/imagenet", 0, ("whole", ["fs.oss.accessKeyId", "unknown"]))
    assert made.plain == {"fs.oss.endpoint": "oss-cn-shanghai.aliyuncs.com"}
    assert made.secret == {
        "fs.oss.accessKeyId": SecretKey("mysecret", "fs.oss.accessKeyId"),
        "fs.oss.accessKeySecret": SecretKey("mysecret", "fs.oss.accessKeySecret"),
        "fs.oss.securityToken": SecretKey("s", "fs.oss.securityToken"),
    }


def test_two_spellings_of_one_option_are_one_option() -> None:
    dataset = changed(objects(SEED)[0], sharedOptions={"alluxio.underfs.oss.endpoint": "shared"})
    assert list(options_of("oss", dataset, "default/imagenet", 0, None).plain) == ["fs.oss.endpoint"]


def test_value_that_would_be_read_from_a_file_of_the_node_goes_by_secret_file() -> None:
    dataset = changed(objects(SEED)[0], sharedOptions={"fs.oss.endpoint": "@/etc/passwd"})
    dataset = changed(dataset, mounts=[{"mountPoint": "oss://b", "name": "a"}])
    made = options_of("oss", dataset, "default/imagenet", 0, None)
    place = made.secret["fs.oss.endpoint"]
    assert place == PlainOption("default/imagenet", None, "fs.oss.endpoint")
    assert isinstance(place, PlainOption)
    assert plain_value(dataset, place) == "@/etc/passwd"


def test_every_scheme_of_the_engine_is_planned_for() -> None:
    assert set(SCHEMES) <= set(KIND_OF_SCHEME)


def test_credentials_in_an_address_are_seen_and_never_shown() -> None:
    assert carries_credentials("http://me:hunter2@host/x")
    assert without_credentials("http://me:hunter2@host/x") == "http://host/x"
    assert not carries_credentials("local:///home/me@host")


def test_every_reason_says_what_to_do() -> None:
    assert set(MEANINGS) == set(Reason)
    assert all(each.meaning and each.action for each in MEANINGS.values())


def test_nodes_are_ordered_by_their_numbers() -> None:
    assert sorted(["node-10", "node-2", "a", "node"], key=natural_order) == ["a", "node", "node-2", "node-10"]


def test_long_names_stay_apart_as_clusters() -> None:
    names = {cluster_name(f"default/{'x' * 60}{letter}") for letter in "ab"}
    assert len(names) == 2
    assert all(len(name) <= 63 for name in names)


def test_more_block_replicas_than_the_engine_has_are_cut() -> None:
    text = SEED.replace("JindoRuntime", "AlluxioRuntime").replace(
        "  replicas: 4", "  replicas: 4\n  data: {replicas: 40}"
    )
    made = World.of(text).settle()
    assert made.roles[0].settings.replicas == 16
