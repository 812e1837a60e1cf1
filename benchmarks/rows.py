"""Every row that can be measured, as data: workloads name them, promises and reports refer to them by key."""

from __future__ import annotations

from benchmarks.report.statistics import Better
from benchmarks.samples import Row

COLD = "data in the contender's cache, page cache cold"
HOT = "page cache hot"
EMPTY = "nothing cached"
NEW = "names not in the kernel"

SEQUENTIAL_COLD = Row("sequential-cold", "sequential read, large files", "MiB/s", cache=COLD)
SEQUENTIAL_HOT = Row("sequential-hot", "sequential read, large files", "MiB/s", cache=HOT)
RANDOM_4K_COLD = Row("random-4k-cold", "random 4 KiB reads", "reads/s", cache=COLD)
RANDOM_4K_HOT = Row("random-4k-hot", "random 4 KiB reads", "reads/s", cache=HOT)
RANDOM_128K_COLD = Row("random-128k-cold", "random 128 KiB reads", "reads/s", cache=COLD)
RANDOM_128K_HOT = Row("random-128k-hot", "random 128 KiB reads", "reads/s", cache=HOT)
MMAP_COLD = Row("mmap-cold", "mmap, one byte of each page", "MiB/s", cache=COLD)
MMAP_HOT = Row("mmap-hot", "mmap, one byte of each page", "MiB/s", cache=HOT)
SMALL_FIRST = Row("small-first", "open+read+close of 110 KB, first touch", "files/s", cache=COLD)
SMALL_AGAIN = Row("small-again", "open+read+close of 110 KB, repeated", "files/s", cache=HOT)
SMALL_THREADS = Row("small-threads", "the same with 8 threads", "files/s", cache=HOT)
STAT_COLD = Row("stat-cold", "stat of every file, first time", "files/s", cache=NEW)
STAT_HOT = Row("stat-hot", "stat of every file, repeated", "files/s", cache="names in the kernel")
WALK = Row("walk", "walk of the tree (find)", "s", Better.LOWER, NEW)

MIXED_COLD = Row(
    "mixed-cold", "sequential read, a large file in a dataset of small ones", "MiB/s", cache=COLD
)
MIXED_HOT = Row("mixed-hot", "sequential read, a large file in a dataset of small ones", "MiB/s", cache=HOT)

LINK_ONE = Row("link-one", "cold read over a limited link, one reader", "share of link", cache=EMPTY)
LINK_MANY = Row("link-many", "cold read over a limited link, 4 readers", "share of link", cache=EMPTY)
LINK_RATE = Row("link-rate", "what the link gives a plain client", "MB/s", cache=EMPTY, compare=False)
LINK_BYTES = Row("link-bytes", "bytes from the bucket / bytes read", "×", Better.LOWER, EMPTY, compare=False)
FIRST_BYTE = Row(
    "first-byte", "time to first byte above the bucket's own", "ms", Better.LOWER, EMPTY, compare=False
)
FIRST_BYTE_RAW = Row("first-byte-raw", "time to first byte, cold file", "ms", Better.LOWER, EMPTY)

EPOCH_HITS = Row(
    "epoch-hits", "hit ratio of a shuffled epoch, cache of half the data", "%", cache="after epoch 1"
)
EPOCH_BYTES = Row("epoch-bytes", "bytes from the bucket in an epoch", "MiB", Better.LOWER, "after epoch 1")
EPOCH_TIME = Row("epoch-time", "time of an epoch", "s", Better.LOWER, "after epoch 1")

LIST_BUCKET = Row(
    "list-bucket",
    "list the bucket of small files on versitygw (Headrace: the whole mount)",
    "objects/s",
    cache=EMPTY,
)
LIST_WIDE = Row(
    "list-wide",
    "list the widest directory on the listing server (Headrace: the whole mount)",
    "objects/s",
    cache=EMPTY,
)
MOUNT_AGAIN = Row(
    "mount-again", "mount again with its snapshot", "s", Better.LOWER, "state kept", compare=False
)
MOUNT_BEHIND = Row(
    "mount-behind",
    "the same with `--snapshot revalidate`, which lists afterwards",
    "s",
    Better.LOWER,
    "state kept",
    compare=False,
)
MAP_AGAIN = Row("map-again", "map the snapshot again", "s", Better.LOWER, "state kept", compare=False)

WARMED = "in the workers' caches and memory, not in the reader's"
LIMITED = "nothing cached, storage link limited"
CLUSTER_BYTES = Row(
    "cluster-bytes",
    "bytes from the storage in a cold epoch of 4 nodes / bytes of the data",
    "×",
    Better.LOWER,
    LIMITED,
)
CLUSTER_COLD = Row(
    "cluster-cold",
    "time of that epoch / time that the data needs on the link",
    "×",
    Better.LOWER,
    LIMITED,
)
CLUSTER_COLD_FAST = Row(
    "cluster-cold-fast",
    "time of a cold epoch of 4 nodes / time of the data on the link, a link as fast as this machine's processors",
    "×",
    Better.LOWER,
    LIMITED,
    compare=False,
)
CLUSTER_WARM = Row(
    "cluster-warm",
    "warm epoch of 4 nodes: use of the busiest link / raw TCP, links limited",
    "share of TCP",
    cache=WARMED,
    compare=False,
)
PEER_LIMITED = Row(
    "peer-limited",
    "read of what another node holds / raw TCP, links limited",
    "share of TCP",
    cache=WARMED,
    compare=False,
)
PEER_FREE = Row(
    "peer-free", "read of what another node holds, links not limited", "MB/s", cache=WARMED, compare=False
)
PEER_BATCH = Row(
    "peer-batch", "the SDK's batches of what another node holds", "MB/s", cache=WARMED, compare=False
)
PEER_SINGLE = Row(
    "peer-single", "the SDK's single reads of it by 16 threads", "MB/s", cache=WARMED, compare=False
)
PEER_SHARE = Row("peer-share", "the same / raw TCP (sendfile)", "share of TCP", cache=WARMED, compare=False)
LOCAL_COST = Row(
    "cost-local",
    "processor time for a read of what this node holds",
    "s/GB",
    Better.LOWER,
    WARMED,
    compare=False,
)
PEER_COST = Row(
    "cost-peer",
    "processor time for a read of what another node holds",
    "s/GB",
    Better.LOWER,
    WARMED,
    compare=False,
)
ORIGIN_COST = Row("cost-origin", "processor time for a read from the storage", "s/GB", Better.LOWER, EMPTY)
SCALE_SHARE = Row(
    "scale-share",
    "4 nodes join 4: share of the data that they then hold",
    "%",
    Better.LOWER,
    WARMED,
    compare=False,
)
SCALE_JOIN = Row(
    "scale-join", "4 nodes join 4: until all take part", "s", Better.LOWER, WARMED, compare=False
)
SCALE_TIME = Row(
    "scale-time", "4 nodes join 4: first epoch of all of them", "s", Better.LOWER, WARMED, compare=False
)
SCALE_BYTES = Row(
    "scale-bytes",
    "4 nodes join 4: bytes of objects from the storage",
    "MiB",
    Better.LOWER,
    WARMED,
    compare=False,
)
CALM_STALL = Row(
    "calm-stall", "the same epoch, no worker is killed: longest wait", "s", Better.LOWER, EMPTY, compare=False
)
KILL_STALL = Row(
    "kill-stall", "a worker is killed: longest wait of a reader", "s", Better.LOWER, EMPTY, compare=False
)
TRUSTING_STALL = Row(
    "trusting-stall",
    "the same with `ignore-checksums`, so that readers get bytes as they come: longest wait",
    "s",
    Better.LOWER,
    EMPTY,
    compare=False,
)
KILL_ERRORS = Row(
    "kill-errors", "a worker is killed: failed reads", "reads", Better.LOWER, EMPTY, compare=False
)

SDK_LOOP = Row("sdk-loop", "Python open().read() of 110 KB files", "files/s", cache=HOT)
SDK_BATCH = Row("sdk-batch", "Headrace's batch read of the same files", "files/s", cache=HOT, compare=False)
SDK_COLD_BATCH = Row(
    "sdk-cold-batch", "the batch read, files in random order", "files/s", cache=EMPTY, compare=False
)
SDK_COLD_BATCH_WAIT = Row(
    "sdk-cold-batch-p99", "a batch of 64 of them, 99 of 100 within", "ms", Better.LOWER, EMPTY, compare=False
)
SDK_COLD_SINGLE = Row(
    "sdk-cold-single", "single reads by 16 threads, random order", "files/s", cache=EMPTY, compare=False
)
SDK_COLD_SINGLE_WAIT = Row(
    "sdk-cold-single-p99", "one of them, 99 of 100 within", "ms", Better.LOWER, EMPTY, compare=False
)
SDK_GAIN = Row("sdk-gain", "batch read / open().read() of local files", "×", cache=HOT, compare=False)


def fresh_names_of(entries: int) -> Row:
    return Row(f"ls-fresh-{entries}", f"mount and ls, directory of {entries:,}", "s", Better.LOWER, EMPTY)


def names_of(entries: int) -> Row:
    return Row(f"ls-{entries}", f"ls, directory of {entries:,}", "s", Better.LOWER, NEW)


def long_names_of(entries: int) -> Row:
    return Row(f"ls-l-{entries}", f"ls -l, directory of {entries:,}", "s", Better.LOWER, NEW)


def names_again(entries: int) -> Row:
    return Row(
        f"ls-again-{entries}", f"ls, directory of {entries:,}, repeated", "s", Better.LOWER, "repeated"
    )


def long_names_again(entries: int) -> Row:
    return Row(
        f"ls-l-again-{entries}", f"ls -l, directory of {entries:,}, repeated", "s", Better.LOWER, "repeated"
    )


def walk_of(entries: int) -> Row:
    return Row(f"walk-{entries}", f"walk of a directory of {entries:,} (find)", "s", Better.LOWER, "repeated")


def resident_per_file(entries: int) -> Row:
    title = f"memory per file after ls -l of {entries:,}"
    return Row(f"memory-{entries}", title, "bytes/file", Better.LOWER, "after ls -l")


def heap_per_file(entries: int) -> Row:
    title = f"of it on the heap, {entries:,} files"
    return Row(f"heap-{entries}", title, "bytes/file", Better.LOWER, "after ls -l")


def snapshot_per_file(entries: int) -> Row:
    title = f"snapshot bytes per file besides its name, {entries:,} files"
    return Row(f"snapshot-{entries}", title, "bytes/file", Better.LOWER, compare=False)
