"""The view as readers get it: the native module is the judge."""

from __future__ import annotations

import dataclasses
import json

import pytest
from clusters import Cluster, beat
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from headrace.engine import native
from headrace.errors import ConfigError
from headrace.membership import MemberFacts, View, ViewMember, apply_change, change_between
from headrace.membership.changes import change_of

FILE = "00112233445566778899aabbccddeeff"
MEMBER = ViewMember("node-1", "node-1:7070", "node-1", 1, "active", 1, 0, None)


def ring(view: View):
    return native.load().Ring(view.to_json())


def test_rendered_view_is_one_that_readers_take() -> None:
    cluster = Cluster.start("node-1", "node-2", "node-3", replicas=2)
    cluster.do(beat("node-4", lease_socket="/run/lease.sock", leaving=True, address="[fd00::4]:7070"))
    cluster.wait(1.0, "node-1", "node-2", "node-3")
    placed = ring(cluster.views[-1])
    ranking = placed.ranking(FILE, 0, 4 << 20, 9)
    assert sorted(ranking) == ["node-1", "node-2", "node-3", "node-4"]
    assert placed.owners(FILE, 0, 4 << 20) == [name for name in ranking if name != "node-4"][:2]


def test_native_ring_refuses_what_is_no_view() -> None:
    with pytest.raises(ConfigError, match="replicas is 0"):
        ring(View(epoch=1, replicas=0, members=()))
    placed = ring(View(epoch=1, replicas=1, members=(MEMBER,)))
    for bad in ("00", "g" * 32, "+" + "0" * 31):
        with pytest.raises(ConfigError, match="32 hexadecimal digits"):
            placed.owners(bad, 0, 4 << 20)
    with pytest.raises(ConfigError, match="power of two"):
        placed.owners(FILE, 0, 5)


hosts = st.one_of(
    st.text(st.sampled_from("ab1.-_:[]"), max_size=12),
    st.ip_addresses().map(lambda address: f"[{address}]" if address.version == 6 else str(address)),
)
addresses = st.builds("{}:{}".format, hosts, st.one_of(st.integers(-1, 70_000), st.text(max_size=3)))


@given(name=st.text(max_size=5), address=addresses)
def test_master_lists_nothing_that_readers_refuse(name: str, address: str) -> None:
    """One bad row would make readers refuse the whole view."""
    try:
        facts = MemberFacts(id=name, address=address, node=name, capacity_bytes=1)
    except ValidationError:
        return
    ring(View(1, 1, (dataclasses.replace(MEMBER, id=facts.id, node=facts.node, address=facts.address),)))


@pytest.mark.parametrize(
    "changed",
    [
        {"id": ""},
        {"id": "a\nb"},
        {"node": "x" * 256},
        {"id": "\ud800"},
        {"address": "node-1"},
        {"address": "0.0.0.0:1"},
        {"address": "node-1:0"},
        {"address": "[fe80::1%eth0]:1"},
        {"capacity_bytes": -1},
        {"capacity_bytes": 1 << 63},
        {"lease_socket": "run/x"},
        {"surprise": 1},
    ],
)
def test_absurd_facts_are_refused(changed: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        MemberFacts(**{"id": "n", "address": "n:1", "node": "n", "capacity_bytes": 1, **changed})


members = st.builds(
    ViewMember,
    id=st.sampled_from([f"node-{number}" for number in range(6)]),
    address=st.sampled_from(["a:1", "b:1"]),
    node=st.just("n"),
    weight=st.integers(0, 2),
    state=st.sampled_from(["active", "draining"]),
    joined_epoch=st.integers(1, 3),
    cached_bytes=st.integers(0, 2),
    lease_socket=st.sampled_from([None, "/s"]),
)
lists = st.lists(members, unique_by=lambda member: member.id).map(
    lambda found: tuple(sorted(found, key=lambda member: member.id))
)


@given(older=lists, newer=lists)
def test_change_leads_from_one_view_to_the_other(older, newer) -> None:
    before, after = View(3, 1, older), View(9, 2, newer)
    change = change_of(json.loads(change_between(before, after).to_json()))
    reached = apply_change(before, change)
    assert reached.epoch == 9 and reached.places_like(after)
    assert [m.cached_bytes > 0 for m in reached.members] == [m.cached_bytes > 0 for m in after.members]


def test_change_of_one_worker_is_small_in_a_large_cluster() -> None:
    many = tuple(dataclasses.replace(MEMBER, id=f"node-{number:04}") for number in range(1000))
    warmer = tuple(dataclasses.replace(member, cached_bytes=7) for member in many)
    before, after = View(1, 1, warmer), View(2, 1, many[:500] + warmer[501:])
    busier = dataclasses.replace(
        after, members=tuple(dataclasses.replace(m, cached_bytes=9) for m in warmer[1:])
    )
    assert len(change_between(before, busier).to_json()) < 200


def test_change_of_another_view_is_refused() -> None:
    change = change_between(View(3, 1, ()), View(4, 1, (MEMBER,)))
    with pytest.raises(ConfigError, match="epoch 3") as caught:
        apply_change(View(2, 1, ()), change)
    assert caught.value.hint == "ask for the whole view"
    for bad in ({}, {"members": [{}], "removed": []}, {"members": 5, "removed": []}):
        with pytest.raises(ConfigError, match="no change of a view"):
            change_of(bad)
