"""The systems that stand side by side. To add one, see `peers.py`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.contenders.contract import CacheSpace, Contender, Kind, Mounted, MountError, Source
from benchmarks.contenders.headrace import Headrace
from benchmarks.contenders.local import Local
from benchmarks.contenders.peers import known_peers

HEADRACE_MODES = ("auto", "view", "passthrough", "elide", "classic")

__all__ = [
    "HEADRACE_MODES",
    "CacheSpace",
    "Contender",
    "Kind",
    "MountError",
    "Mounted",
    "Source",
    "choose_contenders",
]


def choose_contenders(
    local_root: Path, *, peers: Sequence[str] | None, modes: Sequence[str]
) -> tuple[list[Contender], dict[str, str]]:
    """Those who take part, the local file system first, and those left out with the reason.

    `peers` None means every peer that is installed; an unknown name is a ValueError that lists the known ones.
    """
    known = {peer.name: peer for peer in known_peers()}
    for name in peers or ():
        if name not in known:
            raise ValueError(f"unknown peer {name}; known: {', '.join(known)}")
    wanted: list[Contender] = [Local(local_root), *(Headrace(mode) for mode in modes), *known.values()]
    left_out = {contender.name: reason for contender in wanted if (reason := contender.missing())}
    if peers is not None:
        left_out |= {name: "not asked for" for name in known if name not in peers}
    return [contender for contender in wanted if contender.name not in left_out], left_out
