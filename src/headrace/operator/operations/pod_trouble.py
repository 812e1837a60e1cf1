"""The trouble that keeps the Job of an operation from going on, by its pods' statuses. Kubernetes itself tries for
ever. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from headrace.api.times import parse_time
from headrace.operator.role_states import HOPELESS, UNPULLED, containers_of, short, words_of_end
from headrace.plan.last_words import last_words
from headrace.plan.operation_inputs import Trouble
from headrace.plan.reasons import Reason, wait

Content = Mapping[str, Any]

_USUAL = timedelta(minutes=2)
"""How long a pod may take to be made and to begin."""


def trouble_of(
    job: Content, pods: Sequence[Content], newest: Content | None, now: datetime
) -> Trouble | None:
    """The trouble of a Job that has not ended, if it has one."""
    if newest is None or newest["status"].get("phase") in {"Succeeded", "Failed"}:
        return _without_pod(job, pods, now)
    if newest["status"].get("phase") == "Running":
        return _restarting(newest) or _after_others(pods)
    return _unscheduled(newest) or _unstarted(newest, now) or _after_others(pods)


def _without_pod(job: Content, pods: Sequence[Content], now: datetime) -> Trouble | None:
    made = parse_time(job["metadata"]["creationTimestamp"]) if not pods and "metadata" in job else None
    if made is None or now - made < _USUAL:
        return _after_others(pods)
    name = job["metadata"]["name"]
    return Trouble(wait(Reason.POD_NOT_STARTING, f"Job {name} has no pod since it was made"), made)


def _unscheduled(pod: Content) -> Trouble | None:
    for each in pod["status"].get("conditions") or ():
        if each["type"] == "PodScheduled" and each.get("reason") in {"Unschedulable", "SchedulingGated"}:
            what = f"pod {_name(pod)} finds no node ({short(each.get('message'))})"
            return Trouble(wait(Reason.POD_UNSCHEDULABLE, what), _since(pod))
    return None


def _unstarted(pod: Content, now: datetime) -> Trouble | None:
    where = f"pod {_name(pod)} on {pod['spec']['nodeName']}"
    for status in containers_of(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        why = f"{waiting.get('reason')}: {short(waiting.get('message'))}"
        if waiting.get("reason") in UNPULLED:
            what = f"image {status.get('image')} cannot be had for {where} ({why})"
            return Trouble(wait(Reason.IMAGE_NOT_PULLED, what), _since(pod))
        if waiting.get("reason") in HOPELESS:
            what = f"container {status.get('name')} of {where} does not start ({why}){words_of_end(status)}"
            return Trouble(wait(Reason.POD_NOT_STARTING, what), _since(pod))
    since = _since(pod)
    if not pod["spec"]["nodeName"] or since is None or now - since < _USUAL:
        return None
    return Trouble(wait(Reason.POD_NOT_STARTING, f"{where} has its node, and does not begin"), since)


def _restarting(pod: Content) -> Trouble | None:
    """A container that has ended, and waits to be started again in the same pod."""
    for status in containers_of(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in HOPELESS:
            where = f"container {status.get('name')} of pod {_name(pod)} on {pod['spec']['nodeName']}"
            what = f"{where} ended and is started again ({waiting['reason']}){words_of_end(status)}"
            return Trouble(wait(Reason.POD_KILLED, what))
    return None


def _after_others(pods: Sequence[Content]) -> Trouble | None:
    failed = [pod for pod in pods if pod["status"].get("phase") == "Failed"]
    if not failed:
        return None
    last = max(failed, key=lambda pod: pod["metadata"].get("creationTimestamp") or "")
    ended = [(each.get("state") or {}).get("terminated") or {} for each in containers_of(last)]
    codes = [
        f"exit code {each['exitCode']} ({each.get('reason') or 'no reason'}){_said(each)}"
        for each in ended
        if each.get("exitCode")
    ]
    why = codes[0] if codes else short(last["status"].get("reason") or last["status"].get("message"))
    return Trouble(wait(Reason.POD_KILLED, f"{len(failed)} of its pods ended, the last with {why}"))


def _said(ended: Content) -> str:
    words = last_words(str(ended.get("message") or ""))
    return f": {words}" if words else ""


def _since(pod: Content) -> datetime | None:
    """When it got its node; before that, when it was made."""
    conditions = pod["status"].get("conditions") or ()
    bound = [
        each.get("lastTransitionTime")
        for each in conditions
        if each["type"] == "PodScheduled" and each["status"] == "True"
    ]
    at = next(iter(bound), None) or pod["metadata"].get("creationTimestamp")
    return parse_time(at) if at else None


def _name(pod: Content) -> str:
    return str(pod["metadata"].get("name", ""))
