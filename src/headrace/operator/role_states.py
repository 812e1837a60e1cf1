"""The state of each role: from its pod, and from what the master says of it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from headrace.api.times import parse_time
from headrace.operator.desired_state import component_of, noted_in
from headrace.operator.mirror import Content
from headrace.operator.rendering.naming import NODES_ANNOTATION, VERSION_ANNOTATION, role_id_of
from headrace.operator.token_digests import is_locked_out, is_unknown, noted_token
from headrace.plan.last_words import last_words
from headrace.plan.observed import RoleFacts, RoleState
from headrace.plan.roles import RoleKind

_SERVING = {"active", "suspect"}
UNPULLED = {"ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"}
"""Why kubelet says that a container waits when its image cannot be had."""
HOPELESS = {"CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
"""Why it says so when the container cannot begin, or not for long."""
_LONGEST_WORDS = 300
_OFTEN = 2
_RECENT = timedelta(minutes=10)
"""For so long kubelet counts the restarts of a container as one series."""


@dataclass(frozen=True, slots=True)
class ProbeResults:
    """The results of probes beside pods: the master's status (`None`: it does not answer), and what pods should note.

    `rendered` is this backend's part of the version, by the kind of role; `nodes` are those where workers were sent;
    `present` those that are ready; `token` is what a pod notes that is started now.
    """

    status: Mapping[str, Any] | None
    rendered: Mapping[str, str]
    nodes: Sequence[str]
    now: datetime
    present: Collection[str]
    token: str = ""


@dataclass(slots=True)
class RoleStates:
    """Remembers since when the role of each pod of a dataset is as it is; what is not remembered begins now."""

    _known: dict[str, tuple[RoleState, datetime]] = field(default_factory=dict)

    def since(self, uid: str, state: RoleState, now: datetime) -> datetime:
        """The time at which the role came into its state."""
        known = self._known.get(uid)
        if known is None or known[0] is not state:
            known = self._known[uid] = (state, now)
        return known[1]

    def before(self, uid: str) -> RoleState | None:
        """How it was when it was seen last."""
        return self._known[uid][0] if uid in self._known else None

    def keep_only(self, uids: Collection[str]) -> None:
        """Forgets pods that are gone."""
        for uid in [each for each in self._known if each not in uids]:
            del self._known[uid]


@dataclass(slots=True)
class AllRoleStates:
    """The remembered states of the pods of each dataset, for as long as it has some."""

    _by_dataset: dict[str, RoleStates] = field(default_factory=dict)

    def of(self, title: str) -> RoleStates:
        """Those of one dataset."""
        return self._by_dataset.setdefault(title, RoleStates())

    def forget(self, title: str) -> None:
        """Nothing runs for the dataset any more."""
        self._by_dataset.pop(title, None)


def role_facts(
    pods: Sequence[Content], probes: ProbeResults, role_states: RoleStates
) -> tuple[RoleFacts, ...]:
    """The facts of a dataset's pods.

    A pod that has no node yet counts for one of those that its set may use, unless it was made for others.
    """
    taken = {pod["spec"]["nodeName"] for pod in pods if component_of(pod) == RoleKind.WORKER}
    free = [node for node in probes.nodes if node not in taken]
    found = []
    for pod in sorted(pods, key=lambda each: each["metadata"]["name"]):
        node = pod["spec"]["nodeName"]
        if (
            not node
            and component_of(pod) == RoleKind.WORKER
            and free
            and not waits_elsewhere(pod, probes.nodes)
        ):
            node = free.pop(0)
        if node or component_of(pod) == RoleKind.MASTER:
            found.append(_facts(pod, node, probes, role_states))
    role_states.keep_only({pod["metadata"]["uid"] for pod in pods})
    return tuple(found)


def waits_elsewhere(pod: Content, nodes: Iterable[str]) -> bool:
    """True for a worker's pod that waits for a node and may not use these: its rules are those of an earlier plan."""
    noted = noted_in(pod, NODES_ANNOTATION)
    return not pod["spec"]["nodeName"] and noted is not None and noted != sorted(nodes)


def _facts(pod: Content, node: str, probes: ProbeResults, role_states: RoleStates) -> RoleFacts:
    metadata, component = pod["metadata"], component_of(pod)
    role_id = role_id_of(component, metadata["name"], node)
    trouble = _trouble(pod)
    state = _state(pod, role_id, probes, role_states.before(metadata["uid"]), trouble is not None)
    noted = (metadata.get("annotations") or {}).get(VERSION_ANNOTATION, "")
    version, _, rendered = noted.partition("@")
    token = noted_token(pod)
    is_stale = rendered != probes.rendered.get(component) or is_unknown(token, probes.token)
    reason, message = _why(pod, state, trouble, probes.now)
    return RoleFacts(
        id=role_id,
        role=component,
        node=node or None,
        state=state,
        version=f"{version}*" if is_stale else version,
        since=role_states.since(metadata["uid"], state, probes.now),
        reason=reason,
        message=message,
        is_locked_out=is_locked_out(token, probes.token),
        serves=is_ready(pod) and not metadata.get("deletionTimestamp"),
    )


def _why(pod: Content, state: RoleState, trouble: tuple[str, str] | None, now: datetime) -> tuple[str, str]:
    """Why a role has failed, or has failed so often that its next start is no news."""
    if state is RoleState.FAILED and trouble is not None:
        return trouble
    is_new = state is not RoleState.STARTING or pod["metadata"].get("deletionTimestamp")
    return ("", "") if is_new else _restless(pod, now)


def _state(
    pod: Content, role_id: str, probes: ProbeResults, before: RoleState | None, is_troubled: bool
) -> RoleState:
    if pod["metadata"].get("deletionTimestamp"):
        # A node that is away never tells that its pod has ended. Kubernetes has given it up by then, and so may we.
        is_away = pod["spec"]["nodeName"] not in {"", *probes.present}
        return RoleState.ENDED if is_away else RoleState.STARTING
    if is_troubled:
        return RoleState.FAILED
    serves = is_ready(pod)
    if component_of(pod) == RoleKind.MASTER:
        return RoleState.READY if serves and probes.status is not None else RoleState.STARTING
    if component_of(pod) == RoleKind.MOUNT:
        return RoleState.READY if serves else RoleState.STARTING
    return _worker_state(pod, role_id, probes, before, serves)


def _worker_state(
    pod: Content, role_id: str, probes: ProbeResults, before: RoleState | None, serves: bool
) -> RoleState:
    if probes.status is None:
        # It goes on without its master: whether it answers is all that is known.
        return RoleState.READY if serves else RoleState.STARTING
    row = next((each for each in probes.status["workers"] if each["id"] == role_id), None)
    started = _started(pod)
    is_current = row is not None and (started is None or row["started_at_s"] >= started.timestamp())
    if row is None or not is_current:
        # A drained worker leaves the status and waits to be stopped.
        return RoleState.ENDED if before in {RoleState.DRAINING, RoleState.ENDED} else RoleState.STARTING
    if row["state"] == "draining":
        return RoleState.DRAINING
    return RoleState.READY if serves and row["is_listed"] and row["state"] in _SERVING else RoleState.STARTING


def is_ready(pod: Content) -> bool:
    """True for a pod that passes its probes."""
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _started(pod: Content) -> datetime | None:
    """When the container that runs now was started, to the second."""
    for each in pod["status"].get("containerStatuses") or ():
        running = (each.get("state") or {}).get("running")
        if running and running.get("startedAt"):
            return parse_time(running["startedAt"])
    return None


def fault_of(pod: Content, now: datetime) -> str:
    """Why a pod does not come to run, or not for long, in a sentence; empty where nothing is known."""
    return (_trouble(pod) or _restless(pod, now))[1]


def _trouble(pod: Content) -> tuple[str, str] | None:
    """Why a pod does not come to run, by a kind of error and a sentence."""
    if pod["status"].get("phase") == "Failed":
        said = [str(pod["status"].get(key)) for key in ("reason", "message") if pod["status"].get(key)]
        return "Unexpected", f"its pod has failed: {': '.join(said) or 'nothing says why'}"
    for each in containers_of(pod):
        waiting = (each.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in UNPULLED:
            why = f"{waiting['reason']}: {short(waiting.get('message'))}"
            return "NoImage", f"image {each.get('image')} cannot be had ({why})"
        if waiting.get("reason") in HOPELESS:
            return "Unexpected", f"its container does not start: {waiting['reason']}{words_of_end(each)}"
    for each in pod["status"].get("conditions") or ():
        if each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable":
            return "NoNode", f"its pod finds no node: {each.get('message', '')}"
    return None


def containers_of(pod: Mapping[str, Any]) -> Iterator[Content]:
    """The statuses of a pod's containers, init containers first."""
    for kind in ("initContainerStatuses", "containerStatuses"):
        yield from pod["status"].get(kind) or ()


def _restless(pod: Content, now: datetime) -> tuple[str, str]:
    """Why a container ended that runs again, and has ended at least twice and not long ago."""
    for each in containers_of(pod):
        ended = (each.get("lastState") or {}).get("terminated") or {}
        is_bad = ended.get("exitCode", 0) != 0 and each.get("restartCount", 0) >= _OFTEN
        finished = ended.get("finishedAt")
        if is_bad and not each.get("ready") and finished and now - parse_time(finished) < _RECENT:
            return "Unexpected", f"its container ends again and again{words_of_end(each)}"
    return "", ""


def short(words: object) -> str:
    """The message of Kubernetes, in one line that is not too long."""
    return " ".join(str(words or "nothing says why").split())[:_LONGEST_WORDS]


def words_of_end(status: Mapping[str, Any]) -> str:
    """The last words of a container that ended: our own commands say one sentence on their way out."""
    ended = (status.get("lastState") or {}).get("terminated") or {}
    if said := last_words(str(ended.get("message") or "")):
        return f": {said}"
    return f", exit code {ended['exitCode']}" if "exitCode" in ended else ""
