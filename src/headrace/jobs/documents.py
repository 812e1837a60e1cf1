"""Jobs for programs: Arena's field names, and beside them what reading cost, reasons and exit codes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from headrace.api.times import format_time
from headrace.jobs.layouts import allocated_gpus
from headrace.jobs.tables import age, duration_s
from headrace.jobs.views import ClaimView, DataCost, InstanceView, JobView, NodeRoom

Content = dict[str, Any]


def job_document(job: JobView, now: datetime) -> Content:
    """One job. Moments are seconds since 1970, as Arena has them; durations whole seconds with their unit."""
    return {
        "uuid": job.uid,
        "name": job.name,
        "namespace": job.namespace,
        "duration": f"{int(duration_s(job, now))}s",
        "status": job.phase.value,
        "trainer": job.kind.value,
        "tensorboard": job.tensorboard,
        "chiefName": job.chief.name if job.chief else "",
        "instances": [instance_document(each, now) for each in job.instances],
        "priority": job.priority or "N/A",
        "requestGPUs": job.requested_gpus,
        "allocatedGPUs": allocated_gpus(job),
        "creationTimestamp": int(job.created.timestamp()),
        "modelName": "",
        "modelVersion": "",
        "modelSource": "",
        "startTimestamp": int(job.started.timestamp()) if job.started else None,
        "endTimestamp": int(job.ended.timestamp()) if job.ended else None,
        "reason": job.reason,
        "exitCode": job.exit_code,
        "dataCost": cost_document(job.data_cost),
        "events": [
            {
                "source": event.source,
                "type": event.type,
                "time": format_time(event.at),
                "reason": event.reason,
                "message": event.message,
            }
            for event in job.events
        ],
    }


def instance_document(instance: InstanceView, now: datetime) -> Content:
    """One instance."""
    return {
        "ip": instance.address,
        "status": instance.status,
        "name": instance.name,
        "age": age(instance.created, now),
        "node": instance.node,
        "nodeIP": instance.node_address,
        "chief": instance.is_chief,
        "role": instance.role.value,
        "requestGPUs": instance.gpus,
        "gpuMetrics": {},
        "creationTimestamp": int(instance.created.timestamp()) if instance.created else None,
        "reason": instance.reason,
        "exitCode": instance.exit_code,
    }


def cost_document(cost: DataCost | None) -> Content | None:
    """The cost of reading; None when nobody counted it."""
    if cost is None:
        return None
    return {
        "hitRatio": cost.hit_ratio,
        "originBytes": cost.origin_bytes,
        "peerBytes": cost.peer_bytes,
        "localBytes": cost.local_bytes,
        "stalledSeconds": cost.stalled_s,
        "shared": cost.is_shared,
        "reckoned": cost.is_reckoned,
    }


def claim_document(claim: ClaimView, now: datetime) -> Content:
    """One volume of `data list`."""
    return {
        "name": claim.name,
        "namespace": claim.namespace,
        "accessModes": list(claim.access_modes),
        "status": claim.phase,
        "description": claim.description,
        "owner": claim.owner,
        "age": age(claim.created, now),
        "dataset": claim.is_dataset,
        "cached": claim.cached,
    }


def node_document(node: NodeRoom) -> Content:
    """One node of `top node`."""
    return {
        "name": node.name,
        "ip": node.address,
        "role": node.role,
        "status": "Ready" if node.ready else "NotReady",
        "totalGPUs": node.gpus,
        "allocatableGPUs": node.allocatable_gpus,
        "allocatedGPUs": node.allocated_gpus,
    }
