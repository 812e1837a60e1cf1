from __future__ import annotations

import json
from pathlib import Path

import pytest
from clusters import Cluster, beat

from headrace.errors import ConfigError, CorruptDataError, UnsupportedError
from headrace.membership import DrainAsked, Policy, WorkerState, dump, restore

# Written by version 1: every later version reads it.
SAMPLE = Path(__file__).parent / "data" / "membership-1.json"


def text() -> str:
    cluster = Cluster.start("node-1", "node-2", "node-3")
    cluster.do(beat("node-4", lease_socket="/run/lease.sock", ready=False))
    cluster.do(DrainAsked("node-2"))
    cluster.wait(1.0, "node-1", "node-2", "node-3")
    return dump(cluster.state)


def test_state_survives_its_text() -> None:
    state = restore(text(), Policy(), 5.0).state
    assert {name: worker.state.value for name, worker in state.workers.items()} == {
        "node-1": "active",
        "node-2": "draining",
        "node-3": "active",
        "node-4": "joining",
    }
    assert str(state.workers["node-4"].facts.lease_socket) == "/run/lease.sock"
    assert json.loads(dump(state))["body"]["workers"] == json.loads(text())["body"]["workers"]


def test_sample_of_version_1_is_read() -> None:
    state = restore(SAMPLE.read_text(), Policy(), 5.0).state
    assert state.epoch == 4
    assert state.workers["node-2"].state is WorkerState.DRAINING
    assert state.workers["node-1"].joined_epoch == 1


def test_every_cut_and_every_changed_byte_is_noticed() -> None:
    good = text()
    for end in range(0, len(good) - 2, 7):
        with pytest.raises(CorruptDataError, match="membership"):
            restore(good[:end], Policy(), 0.0)
    for position in range(good.index("checksum"), len(good) - 3, 3):
        bad = good[:position] + ("x" if good[position] != "x" else "y") + good[position + 1 :]
        with pytest.raises((CorruptDataError, ConfigError)):
            restore(bad, Policy(), 0.0)


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        ("{}", ConfigError, "no membership of ours"),
        ("[1]", ConfigError, "no membership of ours"),
        ('{"magic":"headrace-membership"}', CorruptDataError, "checksum"),
        ('{"magic":"headrace-membership","version":2}', UnsupportedError, "version 2"),
        ("[" * 100_000, CorruptDataError, "cut off"),
        ("1" * (65 << 20), ConfigError, "too many"),
    ],
)
def test_what_is_no_membership_is_refused_with_a_hint(bad: str, error, words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        restore(bad, Policy(), 0.0)
    assert caught.value.hint
