"""Emulated accelerators: the time that a real one computes for a batch, and a clock that lets it pass.

An emulated accelerator computes nothing. It takes a batch, is busy for as long as the table says, and takes the next:
so everything before it, files, network and input pipeline, is as with a real one, and waiting costs what it costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

EXCHANGE_SHARE = 0.3
"""The end of a step, in which ranks exchange gradients: half of the backward pass, with which Horovod overlaps it."""


@dataclass(frozen=True)
class Accelerator:
    """One row of the table: a real accelerator and how fast it trains ResNet-50."""

    title: str
    images_per_s: float
    source: str


SLEEP_LATE_S = 0.002
"""How much later than asked a sleep may end and still be counted as in time."""

TABLE: Mapping[str, Accelerator] = MappingProxyType(
    {
        "emulated-v100": Accelerator(
            "NVIDIA Tesla V100-SXM2-16GB", 21329 / 32, "21,329 images/s on 4x8, Horovod's exchange included"
        ),
        "emulated-h100": Accelerator("NVIDIA H100", 400 / 0.224, "MLPerf Storage: 400 images in 0.224 s"),
    }
)


def batch_s(accelerator: Accelerator, *, images: int, slowdown: float) -> float:
    """How long one is busy with a batch of so many images; the others of a rank are at the same time."""
    return images / accelerator.images_per_s * slowdown


class StepClock:
    """The accelerators of a rank: when they are busy with a step, and when they wait for a batch.

    A batch is fetched while the step before it is computed, as tf_cnn_benchmarks stages it onto the device: when it is
    there in time, steps follow one another without a gap. A real accelerator has a `step_s` of 0: its steps end as
    they end.
    """

    def __init__(
        self,
        step_s: float,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """The first batch is asked for now."""
        self._step_s, self._now, self._sleep = step_s, now, sleep
        self._begin_s = self.end_s = now()
        self.waited_s = 0.0
        """So far, for batches."""
        self.late_s = 0.0
        """So far, after the ends of steps, for gradients of other ranks: those wait for a batch, too, or compute."""

    end_s: float
    """When the step ends, or has ended, on the clock `now`."""

    def take(self) -> None:
        """The next batch is there: the step begins with it, but not before the one before it ends."""
        self._wait_until(self.end_s)
        late_s = self._now() - self.end_s
        # What a sleep is late is this machine's, and no accelerator's.
        self._begin_s = self.end_s + (late_s if late_s > SLEEP_LATE_S else 0.0)
        self.waited_s += self._begin_s - self.end_s
        self.end_s = self._begin_s + self._step_s

    def wait_for_exchange(self) -> None:
        """Until the part of the step in which gradients are exchanged."""
        self._wait_until(self._begin_s + self._step_s * (1 - EXCHANGE_SHARE))

    def exchanged(self) -> None:
        """The gradients of all ranks are there; a step cannot end before."""
        late_s = max(self._now() - self.end_s, 0.0)
        self.late_s += late_s
        self.end_s += late_s

    def _wait_until(self, moment_s: float) -> None:
        left_s = moment_s - self._now()
        if left_s > 0:
            self._sleep(left_s)
