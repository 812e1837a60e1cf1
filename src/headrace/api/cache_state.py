"""Keys of the map `cacheStates`, alike in the status of datasets and runtimes."""

from __future__ import annotations

CACHED = "cached"
CACHE_CAPACITY = "cacheCapacity"
CACHED_PERCENTAGE = "cachedPercentage"
CACHE_HIT_RATIO = "cacheHitRatio"
LOCAL_HIT_RATIO = "localHitRatio"
REMOTE_HIT_RATIO = "remoteHitRatio"
CACHE_THROUGHPUT_RATIO = "cacheThroughputRatio"
LOCAL_THROUGHPUT_RATIO = "localThroughputRatio"
REMOTE_THROUGHPUT_RATIO = "remoteThroughputRatio"
