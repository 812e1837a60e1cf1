"""What a master has to do: the real state machine, driven by all heartbeats of a simulated cluster. No network."""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from headrace.membership import (
    Event,
    Heartbeat,
    Left,
    MemberFacts,
    Outcome,
    Policy,
    Ticked,
    View,
    change_between,
    dump,
    fresh,
    step,
)

START_S = 10.0
"""All workers start within this time: a cluster that is switched on."""


@dataclass(frozen=True)
class Load:
    """What `workers` workers cost their master. CPU times are of one core; network and HTTP are not in them."""

    workers: int
    peak_heartbeats_per_s: int
    """In the worst second of the start."""
    heartbeats_per_s: float
    heartbeat_cpu_ms: float
    """Parsing included."""
    tick_cpu_ms: float
    publish_cpu_ms: float
    """From a worker's leaving to the text of the new view."""
    view_bytes: int
    change_bytes: int
    """What a reader gets when one worker goes: not the view, but what differs."""
    state_bytes: int
    starting_views: int
    """How many views it took to list all of them."""

    @property
    def core_share(self) -> float:
        """The share of one core that heartbeats and ticks take when nothing happens."""
        return (self.heartbeats_per_s * self.heartbeat_cpu_ms + self.tick_cpu_ms) / 1000


class Cluster:
    """The state machine, and workers that report as often as it asks them to."""

    def __init__(self, workers: int) -> None:
        self.state = fresh(Policy(), 0.0)
        self.view = View(0, 1, ())
        self.bodies = [_body(number) for number in range(workers)]
        self.due = [(START_S * number / workers, number) for number in range(workers)]
        self.second = 0
        self.heard: Counter[int] = Counter()
        """Heartbeats in each second."""

    def run(self, seconds: int) -> None:
        """Time passes: a tick a second, and every heartbeat that is due."""
        for _ in range(seconds):
            while self.due[0][0] < self.second + 1:
                due_s, number = self.due[0]
                reply = self.do(Heartbeat.model_validate_json(self.bodies[number]), due_s).reply
                assert reply is not None
                heapq.heapreplace(self.due, (due_s + reply.interval_s, number))
                self.heard[self.second] += 1
            self.second += 1
            self.do(Ticked(), self.second)

    def do(self, event: Event, now_s: float) -> Outcome:
        outcome = step(self.state, event, now_s)
        self.state, self.view = outcome.state, outcome.view or self.view
        return outcome


def measure(workers: int) -> Load:
    """All workers start, go on for three intervals, and one of them leaves."""
    cluster = Cluster(workers)
    interval_s = math.ceil(Policy().interval_s(workers))
    cluster.run(int(START_S) + 2 * interval_s)
    full, peak = cluster.view, max(cluster.heard.values())
    ticks_s = _cpu_s(lambda: [cluster.do(Ticked(), cluster.second) for _ in range(5)])
    steady_s = _cpu_s(lambda: cluster.run(interval_s))
    heard = sum(cluster.heard[cluster.second - 1 - back] for back in range(interval_s))
    publish_s = _cpu_s(lambda: (cluster.do(Left("node-0", 1), cluster.second), cluster.view.to_json()))
    return Load(
        workers=len(full.members),
        peak_heartbeats_per_s=peak,
        heartbeats_per_s=heard / interval_s,
        heartbeat_cpu_ms=(steady_s - interval_s * ticks_s / 5) * 1000 / heard,
        tick_cpu_ms=ticks_s * 1000 / 5,
        publish_cpu_ms=publish_s * 1000,
        view_bytes=len(full.to_json()),
        change_bytes=len(change_between(full, cluster.view).to_json()),
        state_bytes=len(dump(cluster.state)),
        starting_views=full.epoch,
    )


def tables(loads: Sequence[Load]) -> Iterator[str]:
    """The findings as Markdown."""
    heads: tuple[str, ...] = (
        "workers",
        "heartbeats/s",
        "at the start",
        "CPU a heartbeat",
        "CPU a tick",
        "CPU of a new view",
    )
    heads += ("core used", "whole view", "sent to a reader when one leaves", "views of the start")
    yield from (f"| {' | '.join(heads)} |", "|---" * len(heads) + "|")
    for load in loads:
        times = (load.heartbeat_cpu_ms, load.tick_cpu_ms, load.publish_cpu_ms)
        cells = [f"{load.workers:,}", f"{load.heartbeats_per_s:,.0f}", f"{load.peak_heartbeats_per_s:,}"]
        cells += [f"{time_ms:.2f} ms" for time_ms in times]
        cells += [f"{load.core_share:.1%}", f"{load.view_bytes / 1e6:.2f} MB", f"{load.change_bytes} bytes"]
        yield f"| {' | '.join(cells)} | {load.starting_views} |"


def _body(number: int) -> bytes:
    """The heartbeat of a worker, as it comes over the wire."""
    facts = MemberFacts(
        id=f"node-{number}",
        address=f"node-{number}.workers.training.svc.cluster.local:7070",
        node=f"machine-{number}",
        capacity_bytes=(1, 2, 4)[number % 3] * 10**12,
        cached_bytes=123_456_789_012,
        lease_socket=PurePosixPath("/run/headrace/training/lease.sock"),
    )
    return Heartbeat(facts=facts, incarnation=1).model_dump_json().encode()


def _cpu_s(work: Callable[[], object]) -> float:
    start_s = time.process_time()
    work()
    return time.process_time() - start_s
