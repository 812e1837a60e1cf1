"""The common policies of all kinds of jobs: retries, ends, suspension and gangs, in the words of the Kubeflow
operators."""

from __future__ import annotations

from typing import Any

from headrace.jobs.spec import JobSpec

Content = dict[str, Any]


def run_policy(spec: JobSpec, *, processes: int, with_ttl: bool = True) -> Content:
    """`runPolicy`. `processes` are those that a gang needs at the same time."""
    found: Content = {"cleanPodPolicy": spec.clean_policy.value, "backoffLimit": spec.retries}
    if spec.running_timeout_s:
        found["activeDeadlineSeconds"] = spec.running_timeout_s
    if with_ttl and spec.ttl_after_finished_s is not None:
        found["ttlSecondsAfterFinished"] = spec.ttl_after_finished_s
    if spec.gang:
        gang: Content = {"minAvailable": processes}
        found["schedulingPolicy"] = gang | (
            {"priorityClass": spec.priority_class} if spec.priority_class else {}
        )
    if is_held(spec):
        found["suspend"] = True
    return found


def is_held(spec: JobSpec) -> bool:
    """True for a job that somebody else starts: a person, a queue, or the keeper once its data is warm."""
    return bool(spec.suspend or spec.queue or spec.wait_warm_percent)


def restart_policy(spec: JobSpec) -> str:
    """Processes that are not to be tried again must not be restarted in place either."""
    return "OnFailure" if spec.retries else "Never"
