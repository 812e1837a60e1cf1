"""From the caches of settings to cache levels on this machine's disks, checked before anything starts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from headrace import trusted_folders
from headrace.errors import ConfigError, RefusedError
from headrace.settings.cache_words import CacheWord, WaterMarks, medium_of
from headrace.settings.engine import FolderConfig, LevelConfig
from headrace.settings.sizes import Quota, format_size

_LARGEST_SHARE_PERCENT = 95
# What else uses /run may not find it full.
_RUN, _LARGEST_SHARE_OF_RUN_PERCENT = Path("/run"), 50


def cache_levels(words: Sequence[CacheWord], *, high: float, low: float) -> tuple[LevelConfig, ...]:
    """The levels that the words describe, in the order in which their media first appear."""
    _refuse_doubled(folder for word in words for folder in word.folders)
    media = list(dict.fromkeys(word.medium for word in words))
    usual = WaterMarks(high, low)
    return tuple(_level([word for word in words if word.medium == medium], usual) for medium in media)


def _level(words: Sequence[CacheWord], usual: WaterMarks) -> LevelConfig:
    """One level of words of one medium. The first that gives water marks gives them for all."""
    marks = next((word.marks for word in words if word.marks), usual)
    return LevelConfig(
        medium=words[0].medium,
        folders=tuple(folder for word in words for folder in _folders(word)),
        high=marks.high,
        low=marks.low,
    )


def fitted(levels: Sequence[LevelConfig]) -> tuple[LevelConfig, ...]:
    """The levels with quotas that all together fit on their disks. Their folders must be there.

    By the size of a disk and not by what is free, so that a worker that is started anew keeps what it has.
    """
    wanted: dict[int, int] = {}
    for folder in (each for level in levels for each in level.folders):
        disk = folder.path.stat().st_dev
        wanted[disk] = wanted.get(disk, 0) + folder.quota_bytes
    return tuple(
        level.model_copy(
            update={"folders": tuple(_cut(each, wanted[each.path.stat().st_dev]) for each in level.folders)}
        )
        for level in levels
    )


def _cut(folder: FolderConfig, wanted_bytes: int) -> FolderConfig:
    """The folder with its share of a disk that is too small for all that is wanted of it."""
    disk = os.statvfs(folder.path)
    size_bytes = disk.f_blocks * disk.f_frsize
    is_in_run = folder.path.is_relative_to(_RUN)
    largest = size_bytes * (_LARGEST_SHARE_OF_RUN_PERCENT if is_in_run else _LARGEST_SHARE_PERCENT) // 100
    # A size of 0 is one without limit.
    if not size_bytes or wanted_bytes <= largest:
        return folder
    return folder.model_copy(update={"quota_bytes": max(folder.quota_bytes * largest // wanted_bytes, 1)})


def default_cache(folder: Path) -> CacheWord:
    """A cache in `folder` with half of the space that is free, or is the cache's own already."""
    free = os.statvfs(_existing_parent(folder))
    available = free.f_bavail * free.f_frsize + _used_bytes(folder)
    return CacheWord((folder,), Quota(max(available // 2, 1)), medium_of(folder))


def prepare_folder(folder: FolderConfig) -> None:
    """Makes a cache folder if it is missing, and checks that it can hold what it is to hold."""
    make_folder(folder)
    check_room(folder)


def make_folder(folder: FolderConfig) -> None:
    """Makes a cache folder if it is missing. Raises `RefusedError` for one that other users could change."""
    try:
        trusted_folders.make_folder(folder.path)
    except RefusedError as error:
        raise RefusedError.of(f"cache folder {error}", hint=error.hint) from None
    except NotADirectoryError as error:
        if error.filename == str(folder.path):
            raise ConfigError.of(f"cache folder {folder.path} is a file", hint="name a folder") from None
        raise _cannot("make", folder.path, error) from None
    except OSError as error:
        raise _cannot("make", folder.path, error) from None
    if not os.access(folder.path, os.W_OK | os.X_OK):
        raise _cannot("write to", folder.path, PermissionError(13, "Permission denied"))


def check_room(folder: FolderConfig) -> None:
    """Checks that the disk of a cache folder can hold what the folder is to hold."""
    disk = os.statvfs(folder.path)
    if folder.quota_bytes > disk.f_blocks * disk.f_frsize:
        raise ConfigError.of(
            f"cache folder {folder.path}: the quota of {format_size(folder.quota_bytes)} is larger than its disk "
            f"({format_size(disk.f_blocks * disk.f_frsize)})",
            hint="give a smaller quota, or a share such as 80%",
        )


def _folders(word: CacheWord) -> Iterable[FolderConfig]:
    for path in word.folders:
        disk = os.statvfs(_existing_parent(path))
        quota = word.quota.resolve(disk.f_blocks * disk.f_frsize)
        # A size is shared by the folders of its word; a share is one of each folder's own disk.
        own = quota // len(word.folders) if word.quota.size_bytes is not None else quota
        yield FolderConfig(path=path, quota_bytes=max(own, 1))


def _existing_parent(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _used_bytes(folder: Path) -> int:
    used = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                used += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118 - 3 times as fast
            except OSError:
                continue
    return used


def _refuse_doubled(folders: Iterable[Path]) -> None:
    seen: set[Path] = set()
    for folder in folders:
        if folder in seen:
            raise ConfigError.of(f"cache folder {folder} is given twice")
        seen.add(folder)


def _cannot(action: str, path: Path, error: OSError) -> RefusedError | ConfigError:
    message = f"cannot {action} cache folder {path}: {error.strerror}"
    if isinstance(error, PermissionError):
        hint = "name a folder of yours, or change its rights"
        return RefusedError.of(message, hint=hint)
    return ConfigError.of(message, hint="name a folder on a disk that can be written")
