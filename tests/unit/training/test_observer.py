"""How an instance stands, from its process and from what it said last."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.local.jobs.instance_spec import InstanceReport
from headrace.local.jobs.observed_state import InstanceObservation, ProcessState
from headrace.local.jobs.observer import observe_instance
from headrace.local.processes.role_processes import RoleOrder, RoleRecord


def role(state: Any, run: str = "r-1") -> RoleRecord:
    order = RoleOrder("training:r:a", "default", "job", "job", "node-1", ("true",), "/log", version=run)
    return RoleRecord(order, state=state)


def report(state: Any, run: str = "r-1", **values: Any) -> InstanceReport:
    return InstanceReport(run=run, state=state, **values)


@pytest.mark.parametrize(
    ("process", "said", "is_left", "observed"),
    [
        (None, None, False, InstanceObservation(ProcessState.ABSENT)),
        (role("recorded"), None, False, InstanceObservation(ProcessState.STARTING)),
        (role("running"), report("begun"), False, InstanceObservation(ProcessState.STARTING)),
        (role("running"), report("up"), False, InstanceObservation(ProcessState.UP)),
        # Its last words, before it is gone: nothing is decided before its end.
        (role("running"), report("ended", exit_code=1), False, InstanceObservation(ProcessState.STARTING)),
        (
            role("ended"),
            report("ended", exit_code=3, message="m"),
            False,
            InstanceObservation(ProcessState.ENDED, 3, "m"),
        ),
        (None, report("ended", exit_code=0), False, InstanceObservation(ProcessState.ENDED, 0)),
        (role("ended"), report("up"), False, InstanceObservation(ProcessState.LOST)),
        (role("ended"), report("up"), True, InstanceObservation(ProcessState.LOST, has_leftovers=True)),
        # It ended before it said anything: it may be started again, once nothing of it is left.
        (role("ended"), None, False, InstanceObservation(ProcessState.ABSENT)),
        (role("ended"), None, True, InstanceObservation(ProcessState.ABSENT, has_leftovers=True)),
        # What another attempt was or said is not of this one.
        (None, report("ended", run="r-0", exit_code=0), False, InstanceObservation(ProcessState.ABSENT)),
        (
            role("running", "r-0"),
            report("up", "r-0"),
            False,
            InstanceObservation(ProcessState.ABSENT, has_leftovers=True),
        ),
    ],
)
def test_an_instance_is_seen_as_it_is(
    process: RoleRecord | None, said: InstanceReport | None, is_left: bool, observed: InstanceObservation
) -> None:
    assert observe_instance("r-1", process, said, is_left=is_left) == observed
