"""How an instance stands, from its process and from what it said last."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.local.roles import RoleOrder, RoleRecord
from headrace.local.training.orders import InstanceNews
from headrace.local.training.seeing import sight_of
from headrace.local.training.sights import InstanceSight, Sight


def role(state: Any, run: str = "r-1") -> RoleRecord:
    order = RoleOrder("training:r:a", "default", "job", "job", "node-1", ("true",), "/log", version=run)
    return RoleRecord(order, state=state)


def news(state: Any, run: str = "r-1", **values: Any) -> InstanceNews:
    return InstanceNews(run=run, state=state, **values)


@pytest.mark.parametrize(
    ("process", "said", "is_left", "seen"),
    [
        (None, None, False, InstanceSight(Sight.ABSENT)),
        (role("recorded"), None, False, InstanceSight(Sight.STARTING)),
        (role("running"), news("begun"), False, InstanceSight(Sight.STARTING)),
        (role("running"), news("up"), False, InstanceSight(Sight.UP)),
        # Its last words, before it is gone: nothing is decided before its end.
        (role("running"), news("ended", exit_code=1), False, InstanceSight(Sight.STARTING)),
        (role("ended"), news("ended", exit_code=3, message="m"), False, InstanceSight(Sight.ENDED, 3, "m")),
        (None, news("ended", exit_code=0), False, InstanceSight(Sight.ENDED, 0)),
        (role("ended"), news("up"), False, InstanceSight(Sight.LOST)),
        (role("ended"), news("up"), True, InstanceSight(Sight.LOST, has_leftovers=True)),
        # It ended before it said anything: it may be started again, once nothing of it is left.
        (role("ended"), None, False, InstanceSight(Sight.ABSENT)),
        (role("ended"), None, True, InstanceSight(Sight.ABSENT, has_leftovers=True)),
        # What another attempt was or said is not of this one.
        (None, news("ended", run="r-0", exit_code=0), False, InstanceSight(Sight.ABSENT)),
        (role("running", "r-0"), news("up", "r-0"), False, InstanceSight(Sight.ABSENT, has_leftovers=True)),
    ],
)
def test_an_instance_is_seen_as_it_is(
    process: RoleRecord | None, said: InstanceNews | None, is_left: bool, seen: InstanceSight
) -> None:
    assert sight_of("r-1", process, said, is_left=is_left) == seen
