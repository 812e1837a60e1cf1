"""Sizes, counts and shares of a dataset in the words that `get` prints."""

from __future__ import annotations

from headrace.api import cache_state
from headrace.api.base import Words
from headrace.api.formats import format_bytes, format_percentage
from headrace.hit_ratio import hit_bytes, remote_hit_bytes
from headrace.plan.observed import DataFacts


def cache_states(data: DataFacts, *, copies: int) -> Words:
    """The map `cacheStates`. A block counts as often as it is to be kept: `100.0%` means all copies of all blocks."""
    read = data.read_bytes
    hits = hit_bytes(read, data.fetched_bytes)
    remote = remote_hit_bytes(read, data.remote_bytes, data.fetched_bytes)
    return {
        cache_state.CACHED: format_bytes(data.cached_bytes),
        cache_state.CACHE_CAPACITY: format_bytes(data.capacity_bytes),
        cache_state.CACHED_PERCENTAGE: format_percentage(data.cached_bytes, data.size_bytes * max(copies, 1)),
        cache_state.CACHE_HIT_RATIO: format_percentage(hits, read),
        cache_state.LOCAL_HIT_RATIO: format_percentage(hits - remote, read),
        cache_state.REMOTE_HIT_RATIO: format_percentage(remote, read),
        cache_state.CACHE_THROUGHPUT_RATIO: format_percentage(hits, read),
        cache_state.LOCAL_THROUGHPUT_RATIO: format_percentage(hits - remote, read),
        cache_state.REMOTE_THROUGHPUT_RATIO: format_percentage(remote, read),
    }
