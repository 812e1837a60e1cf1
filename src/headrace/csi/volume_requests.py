"""The volume of a request, and the check that the request makes sense. Pure: looks at words alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import Field

from headrace.errors import BusyError, ConfigError, UnsupportedError
from headrace.settings.model import Model

DATASET = "dataset"
SUB_PATH = "subPath"
_LONGEST_PATH_BYTES = 4096
_LONGEST_ID_BYTES = 1024
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LONGEST_NAME = 253
# Options of mount(8) that are true of every volume, or cost nothing to say.
_SUPPORTED_FLAGS = frozenset(("ro", "nodev", "nosuid", "noexec", "noatime", "nodiratime", "relatime"))


class PublishedOtherwiseError(BusyError):
    """Another volume, or the same one in another way, is published at this target path."""


class Publication(Model):
    """A volume at a target path."""

    volume_id: str
    target: str
    dataset: str
    sub_path: str = ""
    access_mode: int = Field(default=0, ge=0)
    flags: tuple[str, ...] = ()
    readonly: bool = False


def check_volume_id(volume_id: str) -> str:
    """The id; raises `ConfigError` for none, and for what cannot be one."""
    if not volume_id:
        raise ConfigError.of("volume_id is missing")
    if len(volume_id.encode()) > _LONGEST_ID_BYTES or not volume_id.isprintable():
        raise ConfigError.of("volume_id is too long, or not printable")
    return volume_id


def check_path(path: str, field: str) -> str:
    """An absolute path without detours; raises `ConfigError` for anything else."""
    if not path:
        raise ConfigError.of(f"{field} is missing")
    parts = path.rstrip("/").split("/")
    if not path.startswith("/") or len(parts) < 2 or "\0" in path:
        raise ConfigError.of(f"{field} is no absolute path")
    if any(part in ("", ".", "..") for part in parts[1:]) or len(path.encode()) > _LONGEST_PATH_BYTES:
        raise ConfigError.of(f"{field} has detours, or is too long")
    return path.rstrip("/")


def dataset_of(context: Mapping[str, str]) -> str:
    """The dataset that a volume shows, `NAMESPACE/NAME`; raises `ConfigError`."""
    dataset = context.get(DATASET, "")
    if not dataset:
        raise ConfigError.of(f"the volume's attribute `{DATASET}` is missing", hint="it is NAMESPACE/NAME")
    namespace, separator, name = dataset.partition("/")
    labels = name.split(".")
    if not separator or not _LABEL.fullmatch(namespace) or len(name) > _LONGEST_NAME:
        raise ConfigError.of(f"the volume's attribute `{DATASET}` is not NAMESPACE/NAME")
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise ConfigError.of(f"the volume's attribute `{DATASET}` is not NAMESPACE/NAME")
    return dataset


def sub_path_of(context: Mapping[str, str]) -> str:
    """The folder of the dataset that a volume shows, empty for all of it; raises `ConfigError`."""
    path = context.get(SUB_PATH, "").rstrip("/")
    parts = path.split("/")
    if path and any(part in ("", ".", "..") for part in parts):
        raise ConfigError.of(f"the volume's attribute `{SUB_PATH}` is not a path below the dataset")
    if "\0" in path or len(path.encode()) > _LONGEST_PATH_BYTES:
        raise ConfigError.of(f"the volume's attribute `{SUB_PATH}` is not a path")
    if context.get(SUB_PATH) and not path:
        raise ConfigError.of(f"the volume's attribute `{SUB_PATH}` is not a path below the dataset")
    return path


def flags_of(flags: Sequence[str]) -> tuple[str, ...]:
    """Mount flags, if all are supported; raises `UnsupportedError`, which does not repeat them: they may be secret."""
    for place, flag in enumerate(flags):
        if flag not in _SUPPORTED_FLAGS:
            raise UnsupportedError.of(
                f"mount flag {place} of the volume is not supported",
                hint=f"supported are {', '.join(sorted(_SUPPORTED_FLAGS))}",
            )
    return tuple(sorted(set(flags)))
