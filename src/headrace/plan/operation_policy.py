"""How far the pods of operations are as their authors want them: what the administrator's policy refuses."""

from __future__ import annotations

from headrace.api.datamigrate import DataMigrateSpec
from headrace.api.dataprocess import Processor
from headrace.api.metadata import PodMetadata
from headrace.api.writing import part_content
from headrace.plan.given_pods import account_fault, key_faults, pod_faults, taint_faults
from headrace.plan.pod_policy import fault_of_amount
from headrace.plan.policy import Policy
from headrace.plan.reasons import Reason, Wait, wait
from headrace.plan.roles import RoleKind

_MOST_FAULTS = 10


def faults_of_process(processor: Processor, policy: Policy | None) -> list[str]:
    """The demands of a program's pod beyond the policy."""
    if policy is None:
        return []
    script = processor.script
    pod = part_content(script) if script else processor.job.pod_spec if processor.job else {}
    metadata = processor.pod_metadata or PodMetadata()
    account = account_fault(processor.service_account_name, {} if script else pod, policy)
    keys = key_faults(metadata.labels, metadata.annotations, policy)
    taints = [] if policy.process_pods == "Any" else taint_faults(pod.get("tolerations"), policy)
    return [*pod_faults(pod, policy), *taints, *filter(None, [account]), *keys]


def faults_of_copy(spec: DataMigrateSpec, policy: Policy | None) -> list[str]:
    """The same of the pod of a copy, which may be as large as a worker's."""
    if policy is None:
        return []
    metadata = spec.pod_metadata or PodMetadata()
    resources = part_content(spec.resources) if spec.resources else {}
    asked = [
        (part, name, amount)
        for part in ("requests", "limits")
        for name, amount in (resources.get(part) or {}).items()
    ]
    amounts = [
        f"resources.{part}.{name} {amount}"
        for part, name, amount in asked
        if fault_of_amount(name, amount, RoleKind.WORKER, policy)
    ]
    claims = ["resources.claims"] if resources.get("claims") else []
    taints = taint_faults(part_content(spec).get("tolerations"), policy)
    return [*amounts, *claims, *taints, *key_faults(metadata.labels, metadata.annotations, policy)]


def not_allowed(name: str, faults: list[str]) -> Wait:
    """The status of an operation whose pod asks for that."""
    return wait(Reason.POD_NOT_ALLOWED, f"the pod of {name} asks for {'; '.join(faults[:_MOST_FAULTS])}")
