"""How large everything is, and what the best conceivable system would need for it. Pure.

As on the seeds' machines the storage's link feeds one machine easily and starves four. What is divided by `slowdown` is
divided for all: accelerators and link keep their proportion.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from resnet50.accelerators import TABLE, batch_s

from experiment.data import DataPlan


class Way(StrEnum):
    """How the training reads; the value is the column of the tables."""

    STRAIGHT = "s3fs"
    COLD = "headrace (cold)"
    WARM = "headrace (warm)"


@dataclass(frozen=True)
class Shape:
    """How many machines, with how many accelerators each."""

    machines: int
    accelerators: int = 8
    epochs: int = 1
    """How often as many images are trained as there are."""

    @property
    def name(self) -> str:
        """As the seeds write it."""
        return f"{self.machines}x{self.accelerators}"


LINK_BITS_PER_S = 400_000_000
"""Four machines of 8 ask for 593 images a second of 109 KB, 65 MB/s, and the link gives 50: straight reading, which
fetches a little more than it needs, then takes half as long again as computing. In the articles it took 1.47 times as
long."""
SLOWDOWN = 36
"""With steps of 0.43 s two cores have time for four ranks, of which half is spent on waiting for each other: Open MPI
waits by asking. With 24 the exchange of gradients was late in one step of ten."""
SEED_STEPS: Mapping[str, int] = MappingProxyType({"1x8": 56_300, "4x8": 14_070})
"""Steps of the seeds' trainings, of which their tables look at the thousandth."""


@dataclass(frozen=True)
class Plan:
    """One experiment."""

    data: DataPlan
    link_bits_per_s: int
    slowdown: float
    """How many times slower the emulated accelerators are."""
    batch_size: int = 8
    """Images of one accelerator in one step."""
    accelerator: str = "emulated-v100"
    sample_images: int = 1
    parallel_files: int = 2
    """That each rank reads at the same time, and tf.data opens twice as many ahead. All of them share the link with
    the first batch: with four it waited 3.4 s cold, for 131 MB of which it needed a fifth. Of the articles' much
    larger files tf_cnn_benchmarks takes ten."""
    prefetch_batches: int = 2
    """That each rank reads ahead of its step. Eight were 225 MB that all ranks read at once, beside the first batch."""
    nodes: int = 4
    shapes: tuple[Shape, ...] = (Shape(1), Shape(4))

    def images_per_step(self, shape: Shape) -> int:
        """Of all accelerators together."""
        return shape.machines * shape.accelerators * self.batch_size

    def steps(self, shape: Shape) -> int:
        """As many as train all images `epochs` times."""
        return max(self.data.images * shape.epochs // self.images_per_step(shape), 1)

    @property
    def step_s(self) -> float:
        """What an accelerator computes in a step."""
        return batch_s(TABLE[self.accelerator], images=self.batch_size, slowdown=self.slowdown)

    def marked_step(self, shape: Shape) -> int:
        """The step that is as far into the training as the thousandth is in the seeds'."""
        return max(round(1000 / SEED_STEPS.get(shape.name, 14_070) * self.steps(shape)), 1)


@dataclass(frozen=True)
class Bound:
    """The least time and the greatest speed that the accelerators and the link allow."""

    time_s: float
    images_per_s: float

    def excess(self, time_s: float) -> float:
        """How much longer a run took, as a share of the bound."""
        return time_s / self.time_s - 1


def bound(plan: Plan, shape: Shape, way: Way, *, training_bytes: int) -> Bound:
    """max(compute, bytes / link), where straight reads fetch all bytes each time, and Headrace each byte once."""
    steps = plan.steps(shape)
    compute_s, images = steps * plan.step_s, steps * plan.images_per_step(shape)
    rounds = {
        Way.STRAIGHT: images / plan.data.images,
        Way.COLD: min(1.0, images / plan.data.images),
        Way.WARM: 0.0,
    }
    link_s = rounds[way] * training_bytes * 8 / plan.link_bits_per_s
    time_s = max(compute_s, link_s)
    # A run that meets misses alone is as fast as the link; one that has all it needs, as the accelerators.
    return Bound(time_s, images / (time_s if way is Way.STRAIGHT else compute_s))


def ranks_per_machine(cores: int, shape: Shape, nodes: int) -> int:
    """One for each accelerator where the cores of this machine suffice for all nodes; else one that drives them all."""
    return shape.accelerators if cores >= 2 * nodes * shape.accelerators else 1


def demo_plan(scale: float = 1.0) -> Plan:
    """Two minutes of training on 4x8, six and a half on 1x8.

    `scale` makes all trainings longer or shorter, over the same data.
    """
    return Plan(
        DataPlan(images=2400, shards=192),
        link_bits_per_s=LINK_BITS_PER_S,
        slowdown=SLOWDOWN,
        # The link feeds one machine easily: three minutes of that show no more than two.
        shapes=(Shape(1, epochs=_scaled(8, scale)), Shape(4, epochs=_scaled(8, scale))),
    )


def bench_plan() -> Plan:
    """Four times the data, and half an hour."""
    return Plan(
        DataPlan(images=9600, shards=768),
        link_bits_per_s=LINK_BITS_PER_S,
        slowdown=SLOWDOWN,
        shapes=(Shape(1, epochs=7), Shape(4, epochs=7)),
    )


def _scaled(epochs: int, scale: float) -> int:
    return max(math.ceil(epochs * scale), 1)
