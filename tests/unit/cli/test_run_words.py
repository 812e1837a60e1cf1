"""The words of `headrace run`."""

from __future__ import annotations

import pytest

from headrace.cli.run import wished_datasets
from headrace.errors import ConfigError
from headrace.local.programs.exec_into_node import variables_of
from headrace.local.protocol.messages import RunDataset, RunPlace, RunState


def test_datasets_have_names_and_paths() -> None:
    assert wished_datasets(["imagenet:/data/", "my-set"], "team") == (
        RunDataset(namespace="team", name="imagenet", path="/data"),
        RunDataset(namespace="team", name="my-set"),
    )


@pytest.mark.parametrize("words", [[":/data"], ["imagenet:"], ["imagenet:data"], ["a:/a", "a:/b"]])
def test_others_are_refused(words: list[str]) -> None:
    with pytest.raises(ConfigError):
        wished_datasets(words, "default")


def test_a_program_is_told_where_it_is_and_where_the_files_are() -> None:
    places = (
        RunPlace(name="imagenet", mountpoint="/m/imagenet", path="/data"),
        RunPlace(name="my-set", mountpoint="/m/my-set"),
    )
    state = RunState(id="run-1", node="node-1", address="198.18.0.1", mark="i:run-1", places=places)
    assert variables_of(state, {"KEPT": "1", "HEADRACE_NODE": "old"}) == {
        "KEPT": "1",
        "HEADRACE_ROLE_MARK": "i:run-1",
        "HEADRACE_NODE": "node-1",
        "HEADRACE_NODE_ADDRESS": "198.18.0.1",
        "HEADRACE_DATASET_IMAGENET": "/data",
        "HEADRACE_DATASET_MY_SET": "/m/my-set",
    }
