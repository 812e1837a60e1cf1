"""Who has to go when there are too many connections."""

from __future__ import annotations

import pytest

from headrace.listening.crowd import Bounds, Crowd, site_of

BOUNDS = Bounds(connections=6, strangers=4, strangers_of_address=3, held_bytes=100)


def test_the_oldest_stranger_of_an_address_goes_when_it_has_too_many() -> None:
    crowd: Crowd[str] = Crowd(BOUNDS)
    assert [crowd.arrive(name, "10.0.0.1") for name in "abc"] == [[], [], []]
    assert crowd.arrive("d", "10.0.0.1") == ["a"]


def test_who_opens_many_connections_loses_them_and_not_who_opens_one() -> None:
    crowd: Crowd[str] = Crowd(BOUNDS)
    crowd.arrive("lonely", "10.0.0.9")
    for name in "abc":
        assert crowd.arrive(name, "10.0.0.1") == []
    assert crowd.arrive("new", "10.0.0.8") == ["a"]


def test_members_stay_and_leave_strangers_their_own_room() -> None:
    crowd: Crowd[str] = Crowd(BOUNDS)
    for name in ("m1", "m2", "m3", "m4", "m5"):
        assert crowd.arrive(name, "10.0.0.1") == []
        crowd.prove(name)
    assert crowd.arrive("a", "10.0.0.1") == []
    assert crowd.arrive("b", "10.0.0.1") == ["a"], "the strangers are fewer than may be, all are too many"
    crowd.leave("a")
    crowd.prove("b")
    assert crowd.arrive("c", "10.0.0.2") == ["c"], "there is no other stranger"
    assert (len(crowd), crowd.strangers) == (7, 1)


def test_what_strangers_hold_is_bounded_by_ending_the_oldest_of_who_holds_most() -> None:
    crowd: Crowd[str] = Crowd(BOUNDS)
    for name, address in (("small", "10.0.0.9"), ("a", "10.0.0.1"), ("b", "10.0.0.1")):
        crowd.arrive(name, address)
    assert [crowd.hold("small", 10), crowd.hold("a", 40), crowd.hold("b", 40)] == [[], [], []]
    crowd.arrive("new", "10.0.0.8")
    assert crowd.hold("new", 30) == ["a"]
    crowd.leave("a")
    assert crowd.held_bytes == 80
    crowd.prove("b")
    assert crowd.held_bytes == 40, "what members hold does not count"
    assert crowd.hold("new", 500) == ["small"], "one alone may be larger than all should be"


def test_what_is_gone_leaves_nothing_behind() -> None:
    crowd: Crowd[int] = Crowd(BOUNDS)
    for number in range(3):
        crowd.arrive(number, "10.0.0.1")
        crowd.hold(number, 10)
    for number in range(3):
        crowd.leave(number)
        crowd.leave(number)
    assert (len(crowd), crowd.strangers, crowd.held_bytes, crowd.oldest()) == (0, 0, 0, [])


@pytest.mark.parametrize(("files", "found"), [(1024, (768, 512, 341)), (1 << 20, (8192, 2048, 1024))])
def test_connections_leave_a_process_files_for_its_work(files: int, found: tuple[int, ...]) -> None:
    bounds = Bounds().within(files)
    assert (bounds.connections, bounds.strangers, bounds.strangers_of_address) == found


@pytest.mark.parametrize(
    ("address", "site"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
    ],
)
def test_the_addresses_of_one_machine_are_one(address: str, site: str) -> None:
    assert site_of(address) == site
