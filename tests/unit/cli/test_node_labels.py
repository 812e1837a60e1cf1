from __future__ import annotations

import pytest

from headrace.cli.node_labels import parse_labels, parse_taint_changes, parse_taints
from headrace.errors import ConfigError
from headrace.local.protocol.messages import TaintLine


def line(key: str, value: str = "", effect: str = "NoSchedule") -> TaintLine:
    return TaintLine(key=key, value=value, effect=effect)


def test_labels_are_of_all_nodes_or_of_one() -> None:
    assert parse_labels(["gpu=v100", "node-2:disk=ssd", "node-2:empty="]) == (
        {"gpu": "v100"},
        {"node-2": {"disk": "ssd", "empty": ""}},
    )


def test_taints_are_of_all_nodes_or_of_one() -> None:
    shared, of_nodes = parse_taints(
        [
            "gpu=v100:NoSchedule",
            "example.com/spot:NoExecute",
            "node-2:disk=ssd:PreferNoSchedule",
            "node-2:x:NoSchedule",
        ]
    )
    assert shared == (line("gpu", "v100"), line("example.com/spot", "", "NoExecute"))
    assert of_nodes == {"node-2": (line("disk", "ssd", "PreferNoSchedule"), line("x"))}


def test_a_minus_takes_taints_away() -> None:
    added, removed = parse_taint_changes(["a=b:NoSchedule", "gpu:NoExecute-", "gpu-", "gpu=v100:NoSchedule-"])
    assert added == (line("a", "b"),)
    assert removed == (line("gpu", "", "NoExecute"), line("gpu", "", ""), line("gpu", "v100"))


@pytest.mark.parametrize(
    "word", ["gpu", "gpu=v100", "gpu:Never", "a b:NoSchedule", ":NoSchedule", "n:gpu=a:b", ""]
)
def test_what_is_no_taint_is_refused_with_its_form(word: str) -> None:
    for parse in (parse_taints, parse_taint_changes):
        with pytest.raises(ConfigError, match="is not a taint") as caught:
            parse([word])
        assert "NoExecute" in (caught.value.hint or "")


@pytest.mark.parametrize("word", ["gpu", "=x", "a b=c", "n:=x"])
def test_what_is_no_label_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="is not a label"):
        parse_labels([word])
