"""From the levels of a runtime to the cache folders of each worker."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.api.quantities import ratio
from headrace.api.tiers import Level, Medium, VolumeType, split_list
from headrace.plan.policy import Policy
from headrace.plan.reasons import Reason, Wait, wait
from headrace.plan.roles import CacheFolder
from headrace.plan.runtimes import RuntimeKind, Wanted

MEMORY_PLACE = "/run/headrace/memory"
"""Memory of a node that only root writes to, unlike /dev/shm: there, who makes a folder first has it."""
_DEFAULT_FOLDERS = {
    Medium.MEM: MEMORY_PLACE,
    Medium.SSD: "/var/lib/headrace/ssd",
    Medium.HDD: "/var/lib/headrace/hdd",
}
_DEFAULT_QUOTA_BYTES = 1 << 30
_LEAST_MARK = 0.01


def cache_folders(wanted: Wanted, key: str, policy: Policy | None) -> tuple[CacheFolder, ...] | Wait:
    """The folders of one worker of the dataset `key`, the fastest level first; or what is wrong with a level: it lacks
    a quota, or lies in a folder of the nodes where the policy has no caches.
    """
    if not wanted.levels:
        root = _DEFAULT_FOLDERS[Medium.MEM]
        default = CacheFolder(f"{root}/{key}", _DEFAULT_QUOTA_BYTES, "MEM", *_marks(None, None, wanted.kind))
        return _refused([root], "spec.tieredstore has no level, and the default", policy) or (default,)
    folders: list[CacheFolder] = []
    for number, level in enumerate(wanted.levels):
        if (level.volume_type or VolumeType.HOST_PATH) is VolumeType.HOST_PATH:
            field = f"spec.tieredstore.levels[{number}].path"
            if refused := _refused(_paths(level), field, policy):
                return refused
        quotas = _quotas_bytes(level, wanted.kind)
        if not quotas:
            return wait(Reason.QUOTA_MISSING, f"spec.tieredstore.levels[{number}] has no quota")
        folders += _folders(level, quotas, wanted.kind, key)
    return tuple(folders)


def _refused(paths: Iterable[str], field: str, policy: Policy | None) -> Wait | None:
    """A folder itself is allowed, and none below it: there are those of other datasets."""
    if policy is None:
        return None
    strange = [path for path in paths if path not in policy.cache_folders]
    if not strange:
        return None
    allowed = ", ".join(policy.cache_folders) or "no folder"
    return wait(
        Reason.CACHE_FOLDER_NOT_ALLOWED, f"{field} is {strange[0]}, and caches of datasets lie in {allowed}"
    )


def _paths(level: Level) -> list[str]:
    return level.paths or [_DEFAULT_FOLDERS[level.mediumtype]]


def _folders(level: Level, quotas: list[int], kind: RuntimeKind, key: str) -> Iterable[CacheFolder]:
    high, low = _marks(level.high, level.low, kind)
    volume = level.volume_type or VolumeType.HOST_PATH
    for path, quota in zip(_paths(level), quotas, strict=True):
        folder = f"{path.rstrip('/')}/{key}"
        yield CacheFolder(folder, max(quota, 1), level.mediumtype.value, high, low, volume.value)


def _quotas_bytes(level: Level, kind: RuntimeKind) -> list[int]:
    if level.quota_list:
        return [kind.bytes_of(quota) for quota in split_list(level.quota_list)]
    if level.quota is None:
        return []
    count = max(len(level.paths), 1)
    return [kind.bytes_of(level.quota) // count] * count


def _marks(high: str | None, low: str | None, kind: RuntimeKind) -> tuple[float, float]:
    """Both water marks; one that is not given keeps its distance from the one that is."""
    if high is None and low is None:
        return kind.high, kind.low
    above = ratio(high) if high is not None else max(kind.high, (ratio(low or "0") + 1) / 2)
    below = ratio(low) if low is not None else above * kind.low / kind.high
    return max(above, _LEAST_MARK), max(min(below, above), _LEAST_MARK)


def capacity_bytes(folders: Iterable[CacheFolder]) -> int:
    """The capacity of all folders together."""
    return sum(folder.quota_bytes for folder in folders)
