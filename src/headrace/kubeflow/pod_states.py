"""A pod of a job for people: its role, its state in a word, why it waits or failed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from headrace.jobs.spec import RoleName
from headrace.jobs.views import InstanceView
from headrace.kubeflow.disruptions import disruption_of, silence_of
from headrace.kubeflow.names import Content, index_of, role_word_of, time_of

GPU = "nvidia.com/gpu"
_MAIN_ENDED = ("Succeeded", "Failed")
_SIGKILL = 137
_KILLED = {_SIGKILL: "it was killed (SIGKILL)", 143: "it was told to end (SIGTERM)"}
_NO_IMAGE = {"ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"}
_ORDER = tuple(RoleName)


def instance_of(pod: Content) -> InstanceView:
    """The instance that a pod is."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    role = role_of(pod)
    return InstanceView(
        name=metadata["name"],
        role=role,
        index=0 if role is RoleName.LAUNCHER else index_of(pod),
        status=status_word(pod),
        node=spec.get("nodeName") or "",
        node_address=status.get("hostIP") or "",
        address=status.get("podIP") or "",
        created=time_of(metadata.get("creationTimestamp")),
        started=started_at(pod),
        gpus=gpus_of(spec),
        exit_code=exit_code_of(pod),
        reason=reason_of(pod),
    )


def role_of(pod: Content) -> RoleName:
    """Its role; `worker` for one that no operator has told."""
    word = role_word_of(pod)
    return RoleName(word) if word in {role.value for role in RoleName} else RoleName.WORKER


def in_order(instances: Sequence[InstanceView]) -> tuple[InstanceView, ...]:
    """Launcher or master first, then the others, by their indices."""
    return tuple(sorted(instances, key=lambda each: (_ORDER.index(each.role), each.index, each.name)))


def has_ended(pod: Content) -> bool:
    """True when nothing of it runs any more, and nothing is started again."""
    return (pod.get("status") or {}).get("phase") in _MAIN_ENDED


def is_leaving(pod: Content) -> bool:
    """True when somebody deletes it."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def has_ended_by_itself(pod: Content) -> bool:
    """True for one whose program had ended before anybody deleted the pod."""
    if not has_ended(pod):
        return False
    deleted = time_of(pod["metadata"].get("deletionTimestamp"))
    if deleted is None:
        return True
    grace_s, ended = pod["metadata"].get("deletionGracePeriodSeconds") or 0, ended_at(pod)
    if grace_s == 0:
        # All containers had ended by then, and when the deletion was asked for is not known any more.
        return exit_code_of(pod) not in (0, *_KILLED)
    # Both in whole seconds: what ends in the second of the deletion ends because of it.
    return ended is not None and ended < deleted - timedelta(seconds=grace_s)


def claims_of(pod_spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The claims that the volumes of a pod name, each once."""
    named = ((each.get("persistentVolumeClaim") or {}) for each in pod_spec.get("volumes") or ())
    return tuple(dict.fromkeys(str(each["claimName"]) for each in named if each.get("claimName")))


def containers_of(pod: Content) -> tuple[str, ...]:
    """The containers whose logs there may be, the one of the job first."""
    spec = pod.get("spec") or {}
    groups = (spec.get("containers") or (), spec.get("initContainers") or ())
    return tuple(str(each["name"]) for group in groups for each in group)


def status_word(pod: Content) -> str:
    """PENDING, RUNNING, SUCCEEDED, FAILED, or Kubernetes' word for what keeps it."""
    status = pod.get("status") or {}
    phase = str(status.get("phase") or "Pending")
    if is_leaving(pod) and not has_ended(pod):
        return "Terminating"
    for each in _container_states(pod):
        waiting = each.get("waiting") or {}
        # What every pod goes through is no reason.
        if waiting.get("reason") not in (None, "", "ContainerCreating", "PodInitializing"):
            return str(waiting["reason"])
    return phase.upper()


def started_at(pod: Content) -> datetime | None:
    """The time at which its program began; of one that was started again, the last time."""
    state = _main_state(pod)
    running = state.get("running") or state.get("terminated") or {}
    return time_of(running.get("startedAt"))


def ended_at(pod: Content) -> datetime | None:
    """The time at which its program ended."""
    return time_of((_main_state(pod).get("terminated") or {}).get("finishedAt"))


def exit_code_of(pod: Content) -> int | None:
    """The exit code of its program, once it has ended."""
    code = (_main_state(pod).get("terminated") or {}).get("exitCode")
    return int(code) if code is not None else None


def reason_of(pod: Content) -> str:
    """Why it waits or failed, for a person; empty for one that is well."""
    status = pod.get("status") or {}
    if status.get("phase") == "Failed":
        return _failure(pod)
    if status.get("phase") not in (None, "Pending"):
        return disruption_of(pod) or silence_of(pod) or _restarting(pod)
    for each in status.get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return f"no node takes it: {each.get('message') or each.get('reason') or 'nothing says why'}"
    return next(filter(None, map(_waiting, _container_states(pod))), "")


def _failure(pod: Content) -> str:
    status = pod.get("status") or {}
    ended = _main_state(pod).get("terminated") or {}
    if ended.get("reason") == "OOMKilled":
        return "it went over its memory limit and was killed (OOMKilled)"
    if status.get("reason"):
        return f"{status['reason']}: {status.get('message') or 'nothing more is said'}"
    if taken_away := disruption_of(pod):
        return taken_away
    if ended.get("exitCode") == _SIGKILL and role_of(pod) is RoleName.LAUNCHER:
        # mpirun ends as its rank did. Where the kernel counts memory the old way, nothing else tells of a rank's end.
        return "it or one of its ranks was killed (SIGKILL), as for want of memory: its log says which"
    return _end(ended) or "it failed, and nothing says why"


def _end(ended: Mapping[str, Any]) -> str:
    code = ended.get("exitCode")
    if code is None:
        return ""
    said = str(ended.get("message") or "").strip().splitlines()
    told = f": {said[-1][:300]}" if said else ""
    return f"{_KILLED.get(int(code), f'it ended with exit code {code}')}{told}"


def _restarting(pod: Content) -> str:
    """Of a pod that Kubernetes starts again and again: how its last life ended."""
    for each in (pod.get("status") or {}).get("containerStatuses") or ():
        waiting = (each.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") == "CrashLoopBackOff":
            ended = (each.get("lastState") or {}).get("terminated") or {}
            how = "it went over its memory limit" if ended.get("reason") == "OOMKilled" else _end(ended)
            return f"it is started again after {each.get('restartCount', 0)} failures: {how or 'see its log'}"
    return ""


def _waiting(state: Mapping[str, Any]) -> str:
    waiting = state.get("waiting") or {}
    reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    if reason in ("", "ContainerCreating", "PodInitializing"):
        return ""
    what = "its image cannot be pulled" if reason in _NO_IMAGE else "its container does not start"
    return f"{what} ({reason}){f': {message}' if message else ''}"


def _container_states(pod: Content) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status") or {}
    for group in ("initContainerStatuses", "containerStatuses"):
        for each in status.get(group) or ():
            yield each.get("state") or {}


def _main_state(pod: Content) -> Mapping[str, Any]:
    """The state of the first container, which is the job's; operators put theirs behind it."""
    containers = (pod.get("spec") or {}).get("containers") or ()
    name = containers[0].get("name") if containers else None
    found = (pod.get("status") or {}).get("containerStatuses") or ()
    state: Mapping[str, Any] = next(
        (each.get("state") or {} for each in found if each.get("name") == name), {}
    )
    return state


def gpus_of(spec: Mapping[str, Any]) -> int:
    """The number of GPUs of a pod of this spec."""
    limits = ((each.get("resources") or {}).get("limits") or {} for each in spec.get("containers") or ())
    return sum(int(each.get(GPU) or 0) for each in limits)
