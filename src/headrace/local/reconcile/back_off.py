"""Roles that failed: why, in words of their own, and when they are started anew; later each time.

The failures are written down: a role that fails again and again is not started sooner for a supervisor's restart.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from headrace.api.times import format_time, parse_time
from headrace.errors import HeadraceError
from headrace.exits import known_kinds
from headrace.local.processes.role_processes import RoleRecord
from headrace.local.reconcile.role_states import RoleFailure
from headrace.local.store.database import Database
from headrace.local.store.rows import readable
from headrace.plan.last_words import last_complaint, last_line
from headrace.work_queue import back_off_s

_PREFIX = "failures:"
_TAIL_BYTES = 4096
_STEADY = timedelta(minutes=5)


@dataclass(slots=True)
class _Failures:
    """`end` tells one end of a process from another."""

    failure: RoleFailure
    count: int = 1
    end: str = ""


class StartBackOff:
    """The failures of all roles, by the ids of their orders."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._failures = {
            name: failures
            for name, text in database.notes(_PREFIX).items()
            for failures in readable([(name, text)], "failure", _failures)
        }

    def note_start(
        self, order_id: str, error: HeadraceError, version: str, node: str | None, now: datetime
    ) -> None:
        """A role could not be started."""
        said = f"{error.message} ({error.hint})" if error.hint else error.message
        self._note(order_id, RoleFailure(error.kind, said, now, version, node))

    def note_end(self, record: RoleRecord, now: datetime) -> None:
        """A role ended by itself; the same end is counted once. After a long good time, counting begins anew."""
        known = self._failures.get(record.order.id)
        if known is not None and known.end == _end_of(record):
            return
        if now - parse_time(record.since) > _STEADY:
            self.forget(record.order.id)
        self._note(record.order.id, failure_of(record, now), _end_of(record))

    def find(self, order_id: str) -> RoleFailure | None:
        """The last failure of a role."""
        known = self._failures.get(order_id)
        return replace(known.failure, times=known.count) if known else None

    def of_dataset(self, prefix: str) -> list[tuple[str, RoleFailure]]:
        """Those of the orders whose ids begin so."""
        return [
            (each, failures.failure) for each, failures in self._failures.items() if each.startswith(prefix)
        ]

    def left_s(self, order_id: str, now: datetime) -> float:
        """Seconds until the role may be started; 0 when it may be now."""
        known = self._failures.get(order_id)
        if known is None:
            return 0.0
        return max(back_off_s(known.count) - (now - known.failure.since).total_seconds(), 0.0)

    def forget(self, order_id: str) -> None:
        """The role is well, or gone."""
        if self._failures.pop(order_id, None) is not None:
            self._database.strike(f"{_PREFIX}{order_id}")

    def _note(self, order_id: str, failure: RoleFailure, end: str = "") -> None:
        known = self._failures.get(order_id)
        failures = _Failures(failure, known.count + 1 if known else 1, end)
        self._failures[order_id] = failures
        self._database.note(f"{_PREFIX}{order_id}", _text(failures))


def _end_of(record: RoleRecord) -> str:
    return f"{record.starts} {record.since}"


def _text(failures: _Failures) -> str:
    failure = {**asdict(failures.failure), "since": format_time(failures.failure.since)}
    failure.pop("times")
    return json.dumps({"trouble": failure, "count": failures.count, "end": failures.end})


def _failures(content: dict[str, Any]) -> _Failures:
    failure = {**content["trouble"], "since": parse_time(content["trouble"]["since"])}
    return _Failures(RoleFailure(**failure), content["count"], content["end"])


def failure_of(record: RoleRecord, now: datetime) -> RoleFailure:
    """Why a process ended: the last complaint of its log, else the signal or exit code with its last line."""
    text = _tail(Path(record.order.log_file))
    message = last_complaint(text) or _end_text(record.exit_code, last_line(text))
    version = record.order.version.partition("@")[0]
    return RoleFailure(_kind_of(record.exit_code), message, now, version, record.order.node)


def _end_text(code: int | None, line: str) -> str:
    if code is None:
        return "it ended"
    # One that is killed by somebody said nothing of it: its last line is about something else.
    if code < 0:
        return f"it was ended by signal {-code}"
    return f"it ended with exit code {code}" + (f": {line}" if line else "")


def _kind_of(code: int | None) -> str:
    """The kind of error that an exit code stands for, the most common one of several."""
    return next(
        (kind for kind, each in known_kinds().items() if code is not None and int(each) == code), "Unexpected"
    )


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - _TAIL_BYTES, 0))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
