"""How far a Job is, by itself and by its newest pod; and what keeps it from going on. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.api.times import parse_time
from headrace.operator.operations.pod_trouble import trouble_of
from headrace.plan.last_words import last_words
from headrace.plan.operation_inputs import JobState, Trouble

Content = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The state of a Job. `said` is all that the container which ended it left behind, `why` a sentence of it."""

    state: JobState
    node: str | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    said: str = ""
    why: str = ""
    trouble: Trouble | None = None
    address: str = ""
    """That of the pod which runs."""


def job_status(job: Content | None, pods: Sequence[Content], now: datetime | None = None) -> JobStatus | None:
    """The status; `None` when neither the Job nor a pod of it is left: pods that outlive it are on their way out."""
    newest = max(pods, key=lambda pod: pod["metadata"].get("creationTimestamp") or "", default=None)
    node = (newest["spec"]["nodeName"] or None) if newest else None
    if job is None:
        return JobStatus(JobState.RUNNING, node) if pods else None
    conditions = (job.get("status") or {}).get("conditions") or ()
    done = next(
        (each for each in conditions if each["type"] in {"Complete", "Failed"} and each["status"] == "True"),
        None,
    )
    if done is None:
        return _unended(job, pods, newest, now or datetime.now(UTC))
    if newest is not None and newest["status"].get("phase") not in {"Succeeded", "Failed"}:
        # The Job's word came before that of its pod, which is on its way.
        return JobStatus(JobState.RUNNING, node)
    return _ended(done, newest, node)


def _unended(job: Content, pods: Sequence[Content], newest: Content | None, now: datetime) -> JobStatus:
    is_running = newest is not None and newest["status"].get("phase") == "Running"
    return JobStatus(
        state=JobState.RUNNING if is_running else JobState.STARTING,
        node=(newest["spec"]["nodeName"] or None) if newest else None,
        trouble=trouble_of(job, pods, newest, now),
        address=str(newest["status"].get("podIP") or "") if newest is not None and is_running else "",
    )


def _ended(done: Content, pod: Content | None, node: str | None) -> JobStatus:
    ended = _telling(pod) if pod else None
    state = JobState.COMPLETE if done["type"] == "Complete" else JobState.FAILED
    said = str((ended or {}).get("message") or "").strip()
    code = ended.get("exitCode") if ended else None
    at = (ended or {}).get("finishedAt") or done.get("lastTransitionTime")
    why = "" if state is JobState.COMPLETE else _why(said, code, (ended or {}).get("reason"), done)
    return JobStatus(state, node, parse_time(at) if at else None, code, said, why)


def _why(said: str, code: int | None, reason: str | None, done: Content) -> str:
    if code is None:
        return str(done.get("message") or done.get("reason") or "its Job failed")
    words = last_words(said)
    head = f"exit code {code}" + (f" ({reason})" if reason and reason != "Error" else "")
    return f"{head}: {words}" if words else head


def _telling(pod: Content) -> Content | None:
    """The end that tells: of the first container that failed, else of the first one."""
    ends = list(_ends(pod))
    return next((each for each in ends if each.get("exitCode")), ends[-1] if ends else None)


def _ends(pod: Content) -> Iterator[Content]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        for each in pod["status"].get(kind) or ():
            if ended := (each.get("state") or {}).get("terminated"):
                yield ended
