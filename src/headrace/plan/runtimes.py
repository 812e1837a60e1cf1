"""The demands of a runtime of any kind, in one form. All kinds are one engine; what differs between them is data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from headrace.api.alluxio import AlluxioFuse, AlluxioRuntime
from headrace.api.identities import User
from headrace.api.jindo import JindoComponent, JindoFuse, JindoRuntime
from headrace.api.kinds import Runtime
from headrace.api.quantities import size_bytes
from headrace.api.runtime_parts import FuseCleanPolicy
from headrace.api.scheduling import Toleration
from headrace.api.tiers import Level

MOST_BLOCK_REPLICAS = 16


@dataclass(frozen=True, slots=True)
class RuntimeKind:
    """How a kind of runtime differs from the others.

    JindoFS counts `180G` in binary units and keeps a tenth of each quota free; so does its runtime here, which stays
    below the quota by either reading, and shows the capacity that its users know.
    """

    type: str
    is_binary: bool
    quota_share: Fraction
    high: float
    low: float

    def bytes_of(self, quota: int | str) -> int:
        """The bytes that blocks may take of a quota."""
        text = _DECIMAL_UNIT.sub(r"\1i", quota) if self.is_binary and isinstance(quota, str) else quota
        return int(size_bytes(text) * self.quota_share)


_DECIMAL_UNIT = re.compile(r"([kKmMgGtTpPeE])(?!i)(?=[bB]?$)")

KINDS: Mapping[str, RuntimeKind] = {
    "AlluxioRuntime": RuntimeKind("alluxio", is_binary=False, quota_share=Fraction(1), high=0.95, low=0.7),
    "JindoRuntime": RuntimeKind("jindo", is_binary=True, quota_share=Fraction(9, 10), high=0.8, low=0.6),
}


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a role, beyond what the dataset says."""

    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The demands of a runtime. `keeps_mounts`: a mount stays on a node that nobody uses any more."""

    kind: RuntimeKind
    workers: int
    block_replicas: int
    levels: tuple[Level, ...]
    master: Place
    worker: Place
    fuse: Place
    mounts_at_workers: bool
    keeps_mounts: bool
    no_mounts: bool
    lists_by_itself: bool
    secret: str | None
    run_as: User | None


def wanted_of(runtime: Runtime) -> Wanted:
    """The demands of the runtime."""
    return _of_jindo(runtime) if isinstance(runtime, JindoRuntime) else _of_alluxio(runtime)


def _of_alluxio(runtime: AlluxioRuntime) -> Wanted:
    spec = runtime.spec
    policy = spec.management.metadata_sync_policy if spec.management else None
    return Wanted(
        kind=KINDS["AlluxioRuntime"],
        workers=spec.replicas,
        block_replicas=_block_replicas(spec.data.replicas if spec.data else None),
        levels=spec.tieredstore.levels if spec.tieredstore else (),
        master=Place(spec.master.node_selector if spec.master else {}, ()),
        worker=Place(spec.worker.node_selector if spec.worker else {}, ()),
        fuse=Place(spec.fuse.node_selector if spec.fuse else {}, ()),
        no_mounts=False,
        lists_by_itself=policy.auto_sync if policy else True,
        secret=None,
        run_as=spec.run_as,
        **_mounts(spec.fuse),
    )


def _of_jindo(runtime: JindoRuntime) -> Wanted:
    spec = runtime.spec
    return Wanted(
        kind=KINDS["JindoRuntime"],
        workers=0 if spec.worker and spec.worker.disabled else spec.replicas,
        block_replicas=1,
        levels=spec.tieredstore.levels if spec.tieredstore else (),
        master=_place(spec.master),
        worker=_place(spec.worker),
        fuse=_place(spec.fuse),
        no_mounts=bool(spec.fuse and spec.fuse.disabled),
        lists_by_itself=True,
        secret=spec.secret,
        run_as=spec.run_as,
        **_mounts(spec.fuse),
    )


def _place(part: JindoComponent | JindoFuse | None) -> Place:
    return Place(part.node_selector, part.tolerations) if part else Place({}, ())


def _block_replicas(replicas: int | None) -> int:
    return min(max(replicas or 1, 1), MOST_BLOCK_REPLICAS)


def _mounts(fuse: AlluxioFuse | JindoFuse | None) -> dict[str, bool]:
    on_demand = fuse is not None and fuse.clean_policy is FuseCleanPolicy.ON_DEMAND
    return {"mounts_at_workers": not on_demand, "keeps_mounts": not on_demand}
