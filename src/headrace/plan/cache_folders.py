"""From the levels of a runtime to the cache folders of each worker."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.api.quantities import ratio
from headrace.api.tiers import Level, Medium, VolumeType, split_list
from headrace.plan.reasons import Reason, Wait, wait
from headrace.plan.roles import CacheFolder
from headrace.plan.runtimes import RuntimeKind, Wanted

_DEFAULT_FOLDERS = {
    Medium.MEM: "/dev/shm",  # noqa: S108 - the folder of memory that every node has
    Medium.SSD: "/var/lib/headrace/ssd",
    Medium.HDD: "/var/lib/headrace/hdd",
}
_DEFAULT_QUOTA_BYTES = 1 << 30
_LEAST_MARK = 0.01


def cache_folders(wanted: Wanted, key: str) -> tuple[CacheFolder, ...] | Wait:
    """The folders of one worker of the dataset `key`, the fastest level first; or the level that lacks a quota."""
    if not wanted.levels:
        folder = f"{_DEFAULT_FOLDERS[Medium.MEM]}/{key}"
        return (CacheFolder(folder, _DEFAULT_QUOTA_BYTES, "MEM", *_marks(None, None, wanted.kind)),)
    folders: list[CacheFolder] = []
    for number, level in enumerate(wanted.levels):
        quotas = _quotas_bytes(level, wanted.kind)
        if not quotas:
            return wait(Reason.QUOTA_MISSING, f"spec.tieredstore.levels[{number}] has no quota")
        folders += _folders(level, quotas, wanted.kind, key)
    return tuple(folders)


def _folders(level: Level, quotas: list[int], kind: RuntimeKind, key: str) -> Iterable[CacheFolder]:
    high, low = _marks(level.high, level.low, kind)
    paths = level.paths or [_DEFAULT_FOLDERS[level.mediumtype]]
    volume = level.volume_type or VolumeType.HOST_PATH
    for path, quota in zip(paths, quotas, strict=True):
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
    """What all folders may hold together."""
    return sum(folder.quota_bytes for folder in folders)
