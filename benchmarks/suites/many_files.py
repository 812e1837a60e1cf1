"""A dataset of very many files: mounting, telling of, pinning and evicting them, when nothing of them is read."""

from __future__ import annotations

from benchmarks import rows_at_scale as rows
from benchmarks.native import LoopError
from benchmarks.session import Session
from benchmarks.workloads.many_files import seconds_of_steps

SUBJECT = "headrace"


def run(session: Session) -> None:
    """All rows of this group; each step runs once."""
    subject = next((one for one in session.contenders if one.name == SUBJECT), None)
    if subject is None:
        return
    files, cached = session.scale.many_files, session.scale.many_cached
    wanted = rows.many_files_rows(files, cached)
    with session.attempt(subject, *wanted.values()):
        session.say(f"{files:,} files, {cached:,} of them cached")
        seconds = seconds_of_steps(files, cached, session.work)
        if missing := wanted.keys() - seconds.keys():
            raise LoopError(f"steps that were not measured: {', '.join(sorted(missing))}")
        for step, row in wanted.items():
            session.samples.add(row, SUBJECT, seconds[step])
