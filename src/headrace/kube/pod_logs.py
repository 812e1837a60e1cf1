"""The output of containers, as lines that come while they are printed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace.kube.client import KubeClient
from headrace.kube.resources import RESOURCES

_ALL_AT_ONCE_S = 300.0
_LONGEST_LINE_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class LogQuery:
    """The selection of a container's lines. `tail` counts lines; `previous` is the container's life before this one."""

    container: str = ""
    follow: bool = False
    tail: int | None = None
    since: datetime | None = None
    timestamps: bool = False
    previous: bool = False

    def words(self) -> dict[str, str]:
        """As the API server reads them."""
        given = {
            "container": self.container,
            "follow": "true" if self.follow else "",
            "tailLines": "" if self.tail is None else str(self.tail),
            "sinceTime": self.since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if self.since else "",
            "timestamps": "true" if self.timestamps else "",
            "previous": "true" if self.previous else "",
        }
        return {key: value for key, value in given.items() if value}


async def log_lines(client: KubeClient, namespace: str, pod: str, query: LogQuery) -> AsyncIterator[bytes]:
    """Lines with their ends; the last one may lack it, and so do the parts of one that is very long.

    With `follow`, until the container has ended. Raises `MissingFileError` for a pod that is not there, `ConfigError`
    for a container that has not begun.
    """
    path = RESOURCES["Pod"].path(namespace, pod, "log")
    what = f"read the log of Pod {namespace}/{pod}"
    timeout_s = 0.0 if query.follow else _ALL_AT_ONCE_S
    rest = b""
    async for piece in client.stream(path, what, query.words(), timeout_s=timeout_s):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line + b"\n"
        if len(rest) >= _LONGEST_LINE_BYTES:
            # A program that prints no end of a line must not be kept in memory for ever.
            yield rest
            rest = b""
    if rest:
        yield rest
