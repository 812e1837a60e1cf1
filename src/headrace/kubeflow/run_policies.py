"""The place of a job's policy for its pods: below `runPolicy`, or in fields of its spec, as before the training
operator."""

from __future__ import annotations

from headrace.kubeflow.names import Content

_POLICY = "cleanPodPolicy"


def clean_policy_of(job: Content) -> str:
    """Its word for that; empty where it says nothing."""
    spec = job.get("spec") or {}
    return str((spec.get("runPolicy") or {}).get(_POLICY) or spec.get(_POLICY) or "")


def clean_policy_patch(job: Content, policy: str) -> Content:
    """The change of its spec to another clean policy."""
    said = {_POLICY: policy}
    return said if _POLICY in (job.get("spec") or {}) else {"runPolicy": said}
