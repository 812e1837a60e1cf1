"""What the master knows of its workers, as they and others tell it."""

from __future__ import annotations

from headrace.control.messages import Heartbeat
from headrace.control.roster import Roster, policy_of


def test_what_a_load_heard_of_a_worker_is_newer_than_the_heartbeat_before_it() -> None:
    roster = Roster(policy_of(replicas=1, heartbeat_s=2.0, dead_after_s=15.0), 0.0)

    def beat(cached_bytes: int, now_s: float) -> int:
        told = {"id": "w", "address": "10.0.0.1:1", "node": "n", "capacity_bytes": 100}
        roster.beat(Heartbeat.model_validate({**told, "incarnation": 1, "cached_bytes": cached_bytes}), now_s)
        return cached()

    def cached() -> int:
        (row,) = roster.rows()
        return row.cached_bytes

    assert beat(10, 1.0) == 10
    roster.note_cached({"w": 70, "unknown": 5}, 2.5)
    assert cached() == 70
    assert beat(40, 2.6) == 70, "it was under way before"
    assert beat(50, 4.6) == 50, "something was evicted"
