"""Logs that outlive their pods, in ConfigMaps that belong to the job and go with it. Pure.

The form and its limits: docs/format/kept-logs.md. Each line begins with the moment at which it was printed, as
Kubernetes tells it.
"""

from __future__ import annotations

import base64
import gzip
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from headrace.api.times import parse_time
from headrace.kubeflow.names import LOG_LABEL, Content, annotations_of, labels_of

MANAGER = "headrace-jobs"
CHIEF_LIMIT_BYTES = 8 << 20
OTHERS_LIMIT_BYTES = 8 << 20
"""Of all others together."""
_LEAST_BYTES, _MOST_BYTES = 64 << 10, 2 << 20
_PART_BYTES = 512 << 10
_DATA = "log.gz"
_POD, _UID, _CONTAINER, _PART = (
    *("headrace.io/pod", "headrace.io/pod-uid", "headrace.io/container", "headrace.io/part"),
)


def limit_bytes(*, is_chief: bool, pods: int) -> int:
    """The length of the kept part of a log, in bytes of text."""
    if is_chief:
        return CHIEF_LIMIT_BYTES
    return min(max(OTHERS_LIMIT_BYTES // max(pods - 1, 1), _LEAST_BYTES), _MOST_BYTES)


@dataclass(slots=True)
class LogWindow:
    """The beginning and the end of a log: what is between them is left out, and said to be."""

    limit_bytes: int
    left_out_bytes: int = 0
    _head: list[bytes] = field(default_factory=list)
    _tail: deque[bytes] = field(default_factory=deque)
    _head_bytes: int = 0
    _tail_bytes: int = 0
    _is_head_full: bool = False

    def add(self, line: bytes) -> None:
        """Takes the next line, with its end."""
        if not self._is_head_full and self._head_bytes + len(line) <= self.limit_bytes // 8:
            self._head.append(line)
            self._head_bytes += len(line)
            return
        self._is_head_full = True
        self._tail.append(line)
        self._tail_bytes += len(line)
        while self._tail_bytes > self.limit_bytes - self.limit_bytes // 8:
            dropped = self._tail.popleft()
            self._tail_bytes -= len(dropped)
            self.left_out_bytes += len(dropped)

    def text(self) -> bytes:
        """The kept text. The line about what is left out has the moment of the one before it."""
        if not self.left_out_bytes:
            return b"".join((*self._head, *self._tail))
        moment = self._head[-1].partition(b" ")[0] if self._head else b"1970-01-01T00:00:00Z"
        gap = b"%s [headrace: %d bytes of this log were not kept]\n" % (moment, self.left_out_bytes)
        return b"".join((*self._head, gap, *self._tail))


def config_maps(job: Content, pod: Content, container: str, text: bytes) -> list[Content]:
    """The objects that keep a log; none for an empty one."""
    packed = gzip.compress(text, mtime=0) if text else b""
    parts = [packed[begin : begin + _PART_BYTES] for begin in range(0, len(packed), _PART_BYTES)]
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _metadata(job, pod, container, (place, len(parts))),
            "immutable": True,
            "binaryData": {_DATA: base64.b64encode(part).decode()},
        }
        for place, part in enumerate(parts, 1)
    ]


def _metadata(job: Content, pod: Content, container: str, place: tuple[int, int]) -> Content:
    metadata, own = job["metadata"], pod["metadata"]
    uid = str(own.get("uid") or "")
    owner = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return {
        "name": f"{own['name']}-{uid[:8]}-{container}-log-{place[0]}",
        "namespace": metadata["namespace"],
        "labels": {LOG_LABEL: metadata["name"], "app.kubernetes.io/managed-by": MANAGER},
        "annotations": {
            _POD: own["name"],
            _UID: uid,
            _CONTAINER: container,
            _PART: f"{place[0]}/{place[1]}",
        },
        "ownerReferences": [owner],
    }


@dataclass(frozen=True, slots=True)
class KeptLog:
    """The log of one container of a pod that may be gone."""

    pod: str
    uid: str
    container: str
    lines: tuple[bytes, ...]
    """Each with its moment and its end."""


def kept_logs(job: Content, objects: Iterable[Content]) -> list[KeptLog]:
    """The logs that are kept of this very job. One of which a part is missing or damaged is shown as far as it goes."""
    uid = job["metadata"].get("uid")
    parts: dict[tuple[str, str, str], list[Content]] = {}
    for each in objects:
        owners = each["metadata"].get("ownerReferences") or ()
        if any(owner.get("uid") == uid for owner in owners) and LOG_LABEL in labels_of(each):
            notes = annotations_of(each)
            key = (notes.get(_POD, ""), notes.get(_UID, ""), notes.get(_CONTAINER, ""))
            parts.setdefault(key, []).append(each)
    return [KeptLog(*key, tuple(_lines(found))) for key, found in sorted(parts.items())]


def _lines(parts: Sequence[Content]) -> Iterator[bytes]:
    text, unpacking = b"", zlib.decompressobj(wbits=31)
    for place, part in enumerate(sorted(parts, key=_place), 1):
        if _place(part) != place:
            break
        try:
            text += unpacking.decompress(base64.b64decode((part.get("binaryData") or {}).get(_DATA) or ""))
        except (zlib.error, ValueError):
            break
    yield from text.splitlines(keepends=True)


def _place(part: Content) -> int:
    word = annotations_of(part).get(_PART, "").partition("/")[0]
    return int(word) if word.isdecimal() else 0


def moment_of(line: bytes) -> datetime | None:
    """The time at which a kept line was printed."""
    try:
        return parse_time(line.partition(b" ")[0].decode())
    except ValueError:
        return None


def shown(
    lines: Sequence[bytes], *, since: datetime | None, tail: int | None, timestamps: bool
) -> list[bytes]:
    """The lines as a reader of the pod's own log would get them."""
    wanted: list[Any] = [line for line in lines if since is None or (moment_of(line) or since) >= since]
    if tail is not None:
        wanted = wanted[-tail:] if tail else []
    return wanted if timestamps else [line.partition(b" ")[2] for line in wanted]
