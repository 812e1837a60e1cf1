"""The check that the keeper of jobs runs on a cluster, as far as the user may know."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headrace.errors import HeadraceError
from headrace.kubeflow.cluster_api import Cluster
from headrace.kubeflow.names import Content, time_of

LEASE = "headrace-jobs"
_FRESH = timedelta(minutes=1)


async def keeper_runs(cluster: Cluster) -> bool:
    """True when one holds its Lease. A user who may not read Leases does what it would do: both do the same."""
    try:
        leases = await cluster.list("Lease", fields=f"metadata.name={LEASE}")
    except HeadraceError:
        return False
    return any(is_held(lease, datetime.now(UTC)) for lease in leases)


def is_held(lease: Content, now: datetime) -> bool:
    """True for a Lease that somebody renewed lately."""
    spec = lease.get("spec") or {}
    renewed = time_of(spec.get("renewTime"))
    return bool(spec.get("holderIdentity")) and renewed is not None and now - renewed < _FRESH
