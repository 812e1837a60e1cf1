"""The hit ratio: the one definition, for mounts, datasets, clusters and jobs. Pure.

    hit ratio = 1 − min(fetched, read) / read

`read` are the bytes that programs read, `fetched` the bytes that origins sent for it: all but those that a load or a
warm-up asked for. A storage's access log tells the same. docs/operations.md says it to users.
"""

from __future__ import annotations


def hit_ratio(read_bytes: int, fetched_bytes: int) -> float | None:
    """Share of the bytes read that origins did not send for it; `None` before the first read."""
    return hit_bytes(read_bytes, fetched_bytes) / read_bytes if read_bytes > 0 else None


def hit_bytes(read_bytes: int, fetched_bytes: int) -> int:
    """Bytes of those read that were cached. Blocks are fetched whole, so more may be fetched than is read."""
    return max(read_bytes - fetched_bytes, 0)


def remote_hit_bytes(read_bytes: int, remote_bytes: int, fetched_bytes: int) -> int:
    """Those of the hits that workers of other nodes sent: as large a part of them as of all bytes read."""
    hits = hit_bytes(read_bytes, fetched_bytes)
    return hits * min(remote_bytes, read_bytes) // read_bytes if read_bytes > 0 else 0
