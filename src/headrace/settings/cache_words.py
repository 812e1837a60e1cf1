"""Caches as people write them, `PATH:QUOTA[:MEM|SSD|HDD]`: read once, where settings are read, and typed from there on.

`PATH:QUOTA:SSD:0.9-0.7` gives the water marks of its level as well, where levels differ in them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from headrace.errors import ConfigError
from headrace.settings.engine import Medium
from headrace.settings.paths import absolute
from headrace.settings.sizes import Quota, parse_quota

_NONE = "none"
_MARKS = re.compile(r"(?P<high>\d?\.\d+|[01])-(?P<low>\d?\.\d+|[01])", re.ASCII)
_MEMORY_FOLDERS = ("/dev/shm", "/run")  # noqa: S108 - recognised, not used


@dataclass(frozen=True, slots=True)
class WaterMarks:
    """Shares of a quota: eviction starts above `high` and stops at `low`."""

    high: float
    low: float

    def __str__(self) -> str:
        """As in a word: without exponents."""
        return "-".join(f"{share:.9f}".rstrip("0").rstrip(".") for share in (self.high, self.low))


@dataclass(frozen=True, slots=True)
class CacheWord:
    """Folders of one medium, each on a disk of its own or not, that share a quota."""

    folders: tuple[Path, ...]
    quota: Quota
    medium: Medium
    marks: WaterMarks | None = None

    def __str__(self) -> str:
        """The word that means this."""
        parts = [",".join(map(str, self.folders)), str(self.quota), self.medium.value]
        return ":".join([*parts, str(self.marks)] if self.marks else parts)


def parse_cache(word: str) -> CacheWord:
    """`/ssd/headrace:100Gi`, `/dev/shm/x:8Gi:MEM`, `/ssd1,/ssd2:50%:SSD`. Raises `ConfigError`."""
    rest, _, last = word.rpartition(":")
    marks = None
    if match := _MARKS.fullmatch(last):
        marks = WaterMarks(float(match["high"]), float(match["low"]))
        rest, _, last = rest.rpartition(":")
    medium = None
    if last.upper() in Medium.__members__:
        medium = Medium(last.upper())
        rest, _, last = rest.rpartition(":")
    paths = [path for path in rest.split(",") if path.strip()]
    if not paths or not last:
        raise ConfigError.of(
            f"'{word}' is not PATH:QUOTA[:MEM|SSD|HDD]", hint="write for example /ssd/cache:100Gi"
        )
    if marks is not None and marks.low > marks.high:
        raise ConfigError.of(
            f"'{word}': low ({marks.low}) is above high ({marks.high})",
            hint="write HIGH-LOW, such as 0.9-0.7",
        )
    folders = tuple(absolute(path.strip()) for path in paths)
    return CacheWord(folders, parse_quota(last), medium or medium_of(folders[0]), marks)


def medium_of(path: Path) -> Medium:
    """The medium of a folder of which nothing else is said."""
    return Medium.MEM if any(path.is_relative_to(folder) for folder in _MEMORY_FOLDERS) else Medium.SSD


def _typed(value: Any) -> Any:
    return parse_cache(value) if isinstance(value, str) else value


def _without_none(value: Any) -> Any:
    return () if isinstance(value, Sequence) and list(value) == [_NONE] else value


def _usual_without_any(value: Any) -> Any:
    return None if isinstance(value, Sequence) and not value else value


CacheWords = Annotated[
    tuple[Annotated[CacheWord, BeforeValidator(_typed), PlainSerializer(str, return_type=str)], ...],
    BeforeValidator(_without_none),
]
"""Caches, fastest first; the only word `none` is no cache."""
CacheWordsOrUsual = Annotated[CacheWords | None, BeforeValidator(_usual_without_any)]
"""The same; `None`, the usual cache, where no word is given at all."""
