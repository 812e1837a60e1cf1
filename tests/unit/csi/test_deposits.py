"""Who holds what: one supervisor a mountpoint, one deposit, and nothing kept for ever."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from headrace.csi.deposits import Deposits, Held
from headrace.errors import BusyError
from headrace.roles.keeper.messages import Deposit

PLACE = "/node/mounts/default/data"


@pytest.fixture
def made() -> Iterator[list[Held]]:
    some: list[Held] = []
    yield some
    for held in some:
        for descriptor in (held.connection, held.ledger):
            assert not is_open(descriptor), "a descriptor is left"


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def held(made: list[Held], mountpoint: str = PLACE) -> Held:
    connection, ledger = os.memfd_create("connection"), os.memfd_create("ledger")
    deposit = Deposit(mountpoint, "/state", "{}", "data", "0:1", None, 0)
    made.append(Held(deposit, connection, ledger))
    return made[-1]


def test_a_successor_finds_what_was_left(made: list[Held]) -> None:
    deposits, first = Deposits(), held(made)
    deposits.put(first, "one")
    assert deposits.unattended == 0
    assert deposits.leave("one", 5.0) == [first]
    assert (deposits.unattended, first.away_since_s) == (1, 5.0)
    assert deposits.claim(PLACE, "two") is first
    assert deposits.unattended == 0
    deposits.drop(first)


def test_nobody_takes_what_another_looks_after(made: list[Held]) -> None:
    deposits, first, second = Deposits(), held(made), held(made)
    deposits.put(first, "one")
    with pytest.raises(BusyError):
        deposits.claim(PLACE, "two")
    with pytest.raises(BusyError):
        deposits.put(second, "two")
    assert deposits.held[PLACE] is first
    second.close()
    deposits.drop(first)


def test_a_new_deposit_takes_the_place_of_the_earlier_one(made: list[Held]) -> None:
    deposits, first, second = Deposits(), held(made), held(made)
    deposits.put(first, "one")
    deposits.put(second, "one")
    assert not is_open(first.connection)
    assert deposits.held[PLACE] is second
    assert deposits.withdraw("one") == [PLACE]


def test_leaving_after_a_withdrawal_leaves_nothing(made: list[Held]) -> None:
    deposits = Deposits()
    deposits.put(held(made), "one")
    deposits.withdraw("one")
    assert deposits.leave("one", 1.0) == []
    assert deposits.claim(PLACE, "two") is None


@pytest.mark.parametrize(
    ("now_s", "used", "due"),
    [
        (109.0, False, False),
        (110.0, False, True),
        (110.0, True, False),
        (199.0, True, False),
        (200.0, True, True),
    ],
)
def test_what_nobody_looks_after_is_due_in_time(
    made: list[Held], now_s: float, used: bool, due: bool
) -> None:
    deposits, first = Deposits(), held(made)
    deposits.put(first, "one")
    assert deposits.overdue(1e9, 10, 100, lambda _: used) == [], "somebody looks after it"
    deposits.leave("one", 100.0)
    assert deposits.overdue(now_s, 10, 100, lambda _: used) == ([first] if due else [])
    assert deposits.overdue(1e9, 0, 0, lambda _: used) == [], "0 is never"
    deposits.drop(first)
