"""Where a job says when its pods go: below `runPolicy`, or in fields of its spec, as before the training operator."""

from __future__ import annotations

from headrace.kubeflow.names import Content

_POLICY = "cleanPodPolicy"


def clean_policy_of(job: Content) -> str:
    """Its word for that; empty where it says nothing."""
    spec = job.get("spec") or {}
    return str((spec.get("runPolicy") or {}).get(_POLICY) or spec.get(_POLICY) or "")


def clean_policy_patch(job: Content, policy: str) -> Content:
    """What of its spec changes when it is to be another one."""
    said = {_POLICY: policy}
    return said if _POLICY in (job.get("spec") or {}) else {"runPolicy": said}
