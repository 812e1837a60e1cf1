"""Which data there is: TFRecord shards in ImageNet's shape. Pure; `making.py` makes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

FORMAT_VERSION = 2
"""Changes when the files of the same plan would differ."""
TURNS = 3
"""Each photograph is there with its colours in three roles, each a class of its own."""


@dataclass(frozen=True)
class DataPlan:
    """What to make. Sizes are means: photographs differ."""

    images: int
    shards: int
    validation_images: int = 512
    validation_shards: int = 4
    mean_bytes: int = 110_000
    seed: int = 1

    def folder_name(self) -> str:
        """Of data that another plan does not share."""
        text = f"{FORMAT_VERSION} {sorted(asdict(self).items())}"
        return f"imagenet-{self.images}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"

    def files(self) -> Iterator[tuple[str, range]]:
        """(name, numbers of the images in it), as ImageNet's shards are called. No image is in two."""
        yield from _split("train", self.shards, range(self.images))
        yield from _split(
            "validation",
            self.validation_shards,
            range(self.images, self.images + self.validation_images),
        )


@dataclass(frozen=True)
class Data:
    """What was made: a folder that becomes a bucket."""

    folder: Path
    training_bytes: int
    training_images: int

    @property
    def image_bytes(self) -> float:
        """What one image costs to read, with the record around it."""
        return self.training_bytes / self.training_images


def _split(split: str, shards: int, numbers: range) -> Iterator[tuple[str, range]]:
    for shard in range(shards):
        first, last = (len(numbers) * each // shards for each in (shard, shard + 1))
        yield f"{split}-{shard:05d}-of-{shards:05d}", numbers[first:last]
