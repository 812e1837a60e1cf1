"""The paths of a job's files: paths that may not be, that are taken twice, or that hide one another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from headrace.api.names import SUBDOMAIN_PATTERN
from headrace.jobs.spec import JobSpec

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the kernel's own folder
_CLAIM = re.compile(SUBDOMAIN_PATTERN)
_SYSTEM = ("/dev", "/proc", "/sys", SHARED_MEMORY)


def path_faults(spec: JobSpec) -> Iterator[str]:
    """Every fault, each a sentence with its flag."""
    if not is_absolute(spec.working_dir):
        yield f"--working-dir {spec.working_dir[:128]} is not an absolute path"
    for volume in spec.data:
        if not _CLAIM.fullmatch(volume.claim) or not 2 <= len(volume.claim) <= 253:
            yield f"--data {volume.claim[:64]} is not the name of a claim or dataset"
        if not _is_below(volume.sub_path):
            yield f"--data {volume.claim}/{volume.sub_path[:128]} is not a folder inside of it"
        yield from _place("--data", volume.path)
    for claim, count in Counter(volume.claim for volume in spec.data).items():
        if count > 1:
            yield f"--data {claim} stands there {count} times: name each claim once"
    for folder in spec.host_folders:
        if not is_absolute(folder.host_path):
            yield f"--data-dir {folder.host_path[:128]} is not an absolute path"
        yield from _place("--data-dir", folder.path)
    for file in spec.config_files:
        yield from _place("--config-file", file.path)
    yield from _taken(spec)
    yield from _tensorboard(spec)


def is_absolute(path: str) -> bool:
    """True for a path that starts at the root and has no way up in it."""
    return path.startswith("/") and ".." not in path.split("/") and "\0" not in path


def holds(folder: str, path: str) -> bool:
    """True when `path` is that folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _place(flag: str, path: str) -> Iterator[str]:
    if not is_absolute(path):
        yield f"{flag} {path[:128]} is not an absolute path"
    elif path == "/":
        yield f"{flag}: the path cannot be /"
    elif path in _SYSTEM:
        yield f"{flag}: {path} belongs to the system"
    elif ":" in path:
        yield f"{flag}: {path[:128]} has a colon in it, which volumes cannot have"


def _taken(spec: JobSpec) -> Iterator[str]:
    paths = [
        *(volume.path for volume in spec.data),
        *(folder.path for folder in spec.host_folders),
        *(file.path for file in spec.config_files),
    ]
    for path, count in Counter(paths).items():
        if count > 1:
            yield f"{path[:128]} is the place of {count} volumes: give each its own"


def _tensorboard(spec: JobSpec) -> Iterator[str]:
    if spec.tensorboard is None:
        return
    folder = spec.tensorboard.log_dir
    places = [volume.path for volume in spec.data] + [each.path for each in spec.host_folders]
    if not any(holds(path, folder) for path in places):
        yield (
            f"--logdir {folder[:128]} is in no volume, so TensorBoard could not see it: "
            "use a folder below the path of a --data or --data-dir"
        )


def _is_below(path: str) -> bool:
    return not path.startswith("/") and ".." not in path.split("/") and "\0" not in path
