"""What Headrace promises of its speed, as data, and the verdict on a run. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from benchmarks import rows, rows_at_scale, rows_of_weights
from benchmarks.report.statistics import Summary, advantage, best
from benchmarks.samples import Row, Samples

LOCAL = "local"
VIEW = "view"
ROOM_FACTOR = 2.0
# Headers of HTTP, TCP and Ethernet are counted with the payload where bytes are counted on the wire.
WIRE_OVERHEAD = 1.02
MILLION = 1_000_000
# A process costs this much whatever it serves; at a million files it must not show more.
FIXED_HEAP_PER_FILE = 16.0
MANY = rows_at_scale.many_files_rows(10 * MILLION, MILLION)


class Measure(Enum):
    """What of a row is compared with the threshold."""

    VALUE = "value"
    OF_LOCAL = "× local"


class Verdict(Enum):
    REACHED = "reached"
    NOT_REACHED = "not reached"
    NOT_MEASURED = "not measured"


_MESSAGE = (
    "a message to the mount process each, 17 to 39 µs by how fast a processor wakes: docs/decisions/0026"
)
_PIECES = (
    "one way for the whole mount, the one for small files, in which FUSE keeps pages of 4 KiB: tmpfs, which does so, "
    "too, gives 5.1 to 6.3 GiB a second here (nine times in turn)"
)
_TWICE = (
    "each byte goes from the pages of the cache's file into those of the mount: 0.55 s of processor a GB, locally "
    "0.15; the disk is busy for 0.5 of 0.65 s a GiB, locally for 0.5 of 0.55; in a view 0.70 to 0.94"
)
_DISK = "the disk gives 10 to 18 thousand a second from run to run; in turn with it, six times 1.03 and four times 0.93"
_STREAM = (
    "the disk gives 0.5 to 1.6 GiB a second, by what was read before: two folders of ext4 in turn stand at 0.57; "
    "with pauses, five times in turn: 1.07"
)
_AGAIN = "the loop itself runs at 50 to 53 thousand a second from repetition to repetition"
_FIRST = "two messages to the mount process, for the name and for the bytes; four times in turn: 0.71"
_VIEW_PAGES = "four times in turn 0.91, and 0.88 among small files: the EROFS of docs/decisions/0026"
_VIEW_4K = "after reading in order, in turn: five times 0.82 to 1.04, four times 0.78: the EROFS of docs/decisions/0026"
_STOPS = "they stop at a quarter of their files, with 11 to 15 MiB of each fetched ahead; of whole files it is 1.00"
_FULL = "the link is the bound, and it is full"
_STAT = (
    "the loop itself runs at 0.5 to 1.9 million a second from run to run; in turn, seven times 0.95 and four times "
    "0.98"
)
_LOADED = (
    "it copies what one read brought before it asks for more: locally 1.6 s longer than safe_open, here 1.4"
)
_START = "a mount of one file takes 0.24, most of it the start of its processes; the list is made beside that"
_NAMES = "alone, three times in turn: 0.87 to 1.16"
_INODES = (
    "with all of it in the kernel 4.3 to 5.4 here; alone, three times in turn in a slower hour: 8.5 to 9.3"
)
_IMAGE = "6.0 of it when the kernel has the inodes; the rest is their way out of the image"
_LISTED = (
    "of six mounts, three of them views, the first takes 1.54 s, one 0.53, four 0.47 to 0.49, which is 2.07 to 2.17 "
    "times; 0.18 of it is a mount that lists nothing, and rclone takes 0.99 to 1.03"
)
_WARM_EPOCH = (
    "from one epoch to the next, all else the same: 1.00, 0.85, 0.89 in one cluster, 0.99 in another"
)
_CLIENT = (
    "curl that only writes files takes 0.7 to 1.1 of these processors; of ours the worker has 1.0 to 1.5, the mount "
    "0.4 to 0.6, the readers 0.5 to 0.7"
)
_ONE_MACHINE = (
    "both nodes share these two processors; sendfile alone takes 0.6 to 1.0 s a GB of them; of ours the worker has 0.5 "
    "to 0.7, the mount 0.7 to 1.0, the readers 0.5 to 0.7"
)


@dataclass(frozen=True)
class Promise:
    """A promise about a row. `at_least` False means at most; `why` is the measured cause where it is not reached."""

    text: str
    row: Row
    measure: Measure
    threshold: float
    at_least: bool = True
    why: str = ""
    mode: str = ""
    """Of a mount that is not as Headrace chooses by itself."""

    def contender(self, subject: str) -> str:
        """Whose figure is judged."""
        return f"{subject}-{self.mode}" if self.mode else subject

    def holds(self, figure: float) -> bool:
        return figure >= self.threshold if self.at_least else figure <= self.threshold


@dataclass(frozen=True)
class Outcome:
    """A promise and what was measured; `figure` is None where nothing was."""

    text: str
    wanted: str
    figure: float | None
    verdict: Verdict
    note: str = ""


def _of_local(text: str, row: Row, threshold: float, why: str = "") -> Promise:
    return Promise(text, row, Measure.OF_LOCAL, threshold, why=why)


def _of_view(text: str, row: Row, threshold: float, why: str = "") -> Promise:
    return Promise(f"{text}, `--mode {VIEW}`", row, Measure.OF_LOCAL, threshold, why=why, mode=VIEW)


def _at_most(text: str, row: Row, threshold: float, why: str = "") -> Promise:
    return Promise(text, row, Measure.VALUE, threshold, at_least=False, why=why)


def _at_least(text: str, row: Row, threshold: float, why: str = "") -> Promise:
    return Promise(text, row, Measure.VALUE, threshold, why=why)


def _loads(mode: str = "") -> Iterator[Promise]:
    """A model's weights as fast as the link and the local disk allow."""
    for load in rows_of_weights.LOADS:
        text = f"model weights, cold: {load.title}" + (f", `--mode {mode}`" if mode else "")
        why = _LOADED if load is rows_of_weights.PYTHON else ""
        yield replace(_at_most(text, load.share(), 1.1, why), mode=mode)


PROMISES = (
    _of_local("warm sequential read, page cache hot", rows.SEQUENTIAL_HOT, 0.95),
    _of_local("warm sequential read, page cache cold", rows.SEQUENTIAL_COLD, 0.95, _STREAM),
    _of_local("warm large file among small ones, page cache hot", rows.MIXED_HOT, 0.95, _PIECES),
    _of_local("warm large file among small ones, page cache cold", rows.MIXED_COLD, 0.95, _TWICE),
    _of_local("warm random 4 KiB reads, page cache hot", rows.RANDOM_4K_HOT, 0.90),
    _of_local("warm random 4 KiB reads, page cache cold", rows.RANDOM_4K_COLD, 0.90, _DISK),
    _of_local("warm small files, repeated", rows.SMALL_AGAIN, 0.95, _AGAIN),
    _of_local("warm small files, first touch", rows.SMALL_FIRST, 0.60, _FIRST),
    _of_local(
        "Python's open().read() of small files", rows.SDK_LOOP, 0.90, f"ioctl(TCGETS) of Python: {_MESSAGE}"
    ),
    _of_local("stat of each file, first time", rows.STAT_COLD, 0.80, _MESSAGE),
    _of_local("walk of a tree, first time", rows.WALK, 0.80, _MESSAGE),
    _of_local("stat as the local file system", rows.STAT_HOT, 0.95, _STAT),
    _of_local("ls -l as the local file system", rows.long_names_again(100_000), 0.95),
    _of_view("warm sequential read, page cache hot", rows.SEQUENTIAL_HOT, 0.95, _VIEW_PAGES),
    _of_view("warm sequential read, page cache cold", rows.SEQUENTIAL_COLD, 0.95, _STREAM),
    _of_view("warm large file among small ones, page cache hot", rows.MIXED_HOT, 0.95, _VIEW_PAGES),
    _of_view("warm large file among small ones, page cache cold", rows.MIXED_COLD, 0.95, _TWICE),
    _of_view("warm random 4 KiB reads, page cache hot", rows.RANDOM_4K_HOT, 0.90, _VIEW_4K),
    _of_view("warm small files, repeated", rows.SMALL_AGAIN, 0.95, _AGAIN),
    _of_view("warm small files, first touch", rows.SMALL_FIRST, 0.60),
    _of_view("Python's open().read() of small files", rows.SDK_LOOP, 0.90),
    _of_view("stat of each file, first time", rows.STAT_COLD, 0.80),
    _of_view("walk of a tree, first time", rows.WALK, 0.80),
    replace(
        _at_most("ls -l of a million, `--mode view`", rows.long_names_of(MILLION), 5.0, _IMAGE), mode=VIEW
    ),
    _at_most("a million names", rows.names_of(MILLION), 1.5, _NAMES),
    _at_most("ls -l of a million", rows.long_names_of(MILLION), 5.0, _INODES),
    _at_least("list a million objects, objects a second", rows.LIST_WIDE, 50_000),
    _at_most("map the snapshot again, seconds", rows.MAP_AGAIN, 0.1),
    _at_most("snapshot bytes a file besides its name", rows.snapshot_per_file(MILLION), 64),
    _at_most(
        "of it on the heap, bytes a file",
        rows.heap_per_file(MILLION),
        FIXED_HEAP_PER_FILE,
        "a mount of one file has 21 to 25 MB",
    ),
    _at_most(
        "mount again with an unchanged snapshot, seconds",
        rows.MOUNT_AGAIN,
        0.3,
        "it lists the bucket before it is there; with --snapshot revalidate afterwards",
    ),
    _at_most("the same where it is listed afterwards, seconds", rows.MOUNT_BEHIND, 0.3, _START),
    _at_least("cold read fills the link from one reader", rows.LINK_ONE, 0.95),
    _at_least(
        "4 readers fill it",
        rows.LINK_MANY,
        0.95,
        _STOPS,
    ),
    _at_most("first byte above the bucket's own, ms", rows.FIRST_BYTE, 1.0),
    _at_most("each byte fetched once (on the wire)", rows.LINK_BYTES, WIRE_OVERHEAD),
    _at_least("hits of an epoch with half the data cached, %", rows.EPOCH_HITS, 49.0),
    _at_most("a cold epoch of 4 nodes takes each byte once (on the wire)", rows.CLUSTER_BYTES, WIRE_OVERHEAD),
    _at_most("it takes the time of the storage's link", rows.CLUSTER_COLD, 1.05),
    _at_least("a warm epoch of 4 nodes fills their links", rows.CLUSTER_WARM, 0.90, _WARM_EPOCH),
    _at_least("a read from a peer fills the link", rows.PEER_LIMITED, 0.90),
    _at_least("and as much as sendfile without a limit", rows.PEER_SHARE, 0.90, _ONE_MACHINE),
    _at_most(
        "processor for a GB from the storage, seconds",
        rows.ORIGIN_COST,
        1.0,
        _CLIENT,
    ),
    _at_most("processor for a GB from a peer, seconds", rows.PEER_COST, 0.8, _ONE_MACHINE),
    _at_most("processor for a GB of this node, seconds", rows.LOCAL_COST, 0.2, "readers alone: 0.2 to 0.5"),
    *_loads(),
    *_loads(mode=VIEW),
    _at_most("model weights: each byte fetched once (on the wire)", rows_of_weights.BYTES, WIRE_OVERHEAD),
    _at_most("model weights on 2 nodes × 2 ranks, cold", rows_of_weights.NODES_TIME, 1.1),
    _at_most("each byte of them fetched once (on the wire)", rows_of_weights.NODES_BYTES, WIRE_OVERHEAD),
    _at_most("model weights on the next node", rows_of_weights.NEXT_TIME, 1.1),
    _at_most("of them from the storage, MiB", rows_of_weights.NEXT_BYTES, 1.0),
    _at_most("4 nodes join 4: bytes from the storage, MiB", rows.SCALE_BYTES, 0.0),
    _at_most("a worker is killed: failed reads", rows.KILL_ERRORS, 0.0),
    _at_most("ten million files: mount again, seconds", MANY["open again"], 1.0),
    _at_most("with a million of them cached, seconds", MANY["open with cache"], 1.0),
    _at_most("and a worker's heartbeat, seconds", MANY["heartbeat with cache"], 0.01),
    _at_most(
        "a thousand datasets that wait: the supervisor's processor, %",
        rows_at_scale.declared_idle(1000),
        1.0,
    ),
    _at_most("kubectl create to Bound with two workers, seconds", rows_at_scale.KUBERNETES_BOUND, 10.0),
    _at_most("the operator with a thousand datasets, MiB", rows_at_scale.operator_memory(1000), 200.0),
)

NO_ROOM: Mapping[str, str] = {
    rows.LIST_BUCKET.key: _LISTED,
    rows.LINK_ONE.key: _FULL,
    rows.ORIGIN_COST.key: f"a cache of its own that others read, too, between storage and mount; {_CLIENT}",
    rows.LINK_MANY.key: _STOPS,
    rows.MIXED_HOT.key: "FUSE's pages there and here: no process has a part in it",
    rows.MIXED_COLD.key: "from the pages of a cache's file into FUSE's there and here",
    **{load.cold().key: _FULL for load in rows_of_weights.LOADS},
    rows_of_weights.NODES_TIME.key: "the link is full, with each byte once; a peer takes each once for each node",
}
"""Why nobody could be twice as fast there as a good peer."""


def judge(samples: Samples, subject: str) -> list[Outcome]:
    """The verdict on every promise of the table, for the contender named `subject`."""
    return [_judge_one(promise, samples, subject) for promise in PROMISES]


def judge_against_peers(samples: Samples, subject: str, peers: set[str]) -> list[Outcome]:
    """At least twice the best peer, on every row where the local file system leaves that room."""
    compared = [row for row in samples.rows.values() if row.compare]
    outcomes = (_judge_room(row, samples.summaries(row.key), subject, peers) for row in compared)
    return [outcome for outcome in outcomes if outcome]


def _judge_one(promise: Promise, samples: Samples, subject: str) -> Outcome:
    subject = promise.contender(subject)
    figure = _figure(promise, samples.summaries(promise.row.key), subject)
    sign = "≥" if promise.at_least else "≤"
    unit = promise.measure.value if promise.measure is Measure.OF_LOCAL else promise.row.unit
    wanted = f"{sign} {promise.threshold:g} {unit}"
    if figure is None:
        reason = samples.reasons.get(promise.row.key, {}).get(subject, "not part of this run")
        return Outcome(promise.text, wanted, None, Verdict.NOT_MEASURED, reason)
    verdict = Verdict.REACHED if promise.holds(figure) else Verdict.NOT_REACHED
    notes = (_local_note(promise, samples), promise.why if verdict is Verdict.NOT_REACHED else "")
    return Outcome(promise.text, wanted, figure, verdict, "; ".join(note for note in notes if note))


def _local_note(promise: Promise, samples: Samples) -> str:
    """What the local file system took here, beside a promise in absolute figures."""
    local = samples.summaries(promise.row.key).get(LOCAL)
    if local is None or promise.measure is Measure.OF_LOCAL:
        return ""
    return f"the local file system: {local.median:.3g} {promise.row.unit}"


def _figure(promise: Promise, summaries: Mapping[str, Summary], subject: str) -> float | None:
    ours = summaries.get(subject)
    if ours is None or promise.measure is Measure.VALUE:
        return ours.median if ours else None
    local = summaries.get(LOCAL)
    return advantage(ours.median, local.median, promise.row.better) if local else None


def _judge_room(row: Row, summaries: Mapping[str, Summary], subject: str, peers: set[str]) -> Outcome | None:
    medians = {name: summary.median for name, summary in summaries.items()}
    rival = best({name: value for name, value in medians.items() if name in peers}, row.better)
    if subject not in medians or rival is None:
        return None
    figure = advantage(medians[subject], medians[rival], row.better)
    if figure is None:
        return None
    room = advantage(medians[LOCAL], medians[rival], row.better) if LOCAL in medians else None
    reached = figure >= ROOM_FACTOR
    note = f"best peer: {rival}"
    if not reached and row.key in NO_ROOM:
        note = f"{note}; {NO_ROOM[row.key]}"
    in_view = _in_view(row, medians, subject, rival)
    if not reached and in_view is not None:
        note = f"{note}; with `--mode {VIEW}`: {in_view:.2f}×"
    if not reached and room is not None and room < ROOM_FACTOR:
        return Outcome(
            _name(row), "no room", figure, Verdict.REACHED, f"{note}; the local file system: {room:.2f}×"
        )
    return Outcome(
        _name(row), f"≥ {ROOM_FACTOR:g}×", figure, Verdict.REACHED if reached else Verdict.NOT_REACHED, note
    )


def _in_view(row: Row, medians: Mapping[str, float], subject: str, rival: str) -> float | None:
    view = medians.get(f"{subject}-{VIEW}")
    return None if view is None else advantage(view, medians[rival], row.better)


def _name(row: Row) -> str:
    return f"{row.title} ({row.cache})" if row.cache else row.title
