"""Trains with PyTorch on one file a sample: epochs, loader workers, ranks, and a checkpoint in the middle of an epoch.

The data is `train/CLASS/NAME`. The model is small on purpose: what is shown here is how samples come to it.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Sampler

import headrace
from headrace.client.read_order import epoch_order, shard
from headrace.client.torch import FileDataset, PrefetchSampler

SEED = 17
BATCH = 16
FEATURES = 1024
RANK = int(os.environ.get("RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))


class EpochOrder(Sampler):
    """The samples of this rank in one epoch, from the first one that is not trained yet."""

    def __init__(self, count: int) -> None:
        self.epoch = 0
        self.done = 0
        self._count = count

    def __iter__(self) -> Iterator[int]:
        order = epoch_order(self._count, seed=SEED, epoch=self.epoch, shuffle=True)
        return iter(shard(order, index=RANK, count=WORLD_SIZE)[self.done :])

    def __len__(self) -> int:
        return len(range(RANK, self._count, WORLD_SIZE)) - self.done


def decode(path: str, content: memoryview) -> tuple[torch.Tensor, int]:
    """A sample. Your decoder stands here; the class is the folder's name."""
    pixels = torch.frombuffer(content[:FEATURES], dtype=torch.uint8)
    return pixels.float() / 255, int(path.split("/")[-2])


def open_loader(dataset: headrace.Dataset, workers: int) -> tuple[DataLoader, EpochOrder]:
    """A loader of all files below `train`, and the order that it follows."""
    samples = FileDataset(dataset, dataset.files("train/**"), transform=decode)
    order = EpochOrder(len(samples))
    loader = DataLoader(
        samples,
        batch_size=BATCH,
        sampler=PrefetchSampler(order, samples),
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    return loader, order


def save(file: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, order: EpochOrder) -> None:
    """Writes a checkpoint: whole, or not at all."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": order.epoch,
        "done": order.done,
    }
    torch.save(state, f"{file}.new")
    Path(f"{file}.new").replace(file)


def load(file: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, order: EpochOrder) -> None:
    """Goes on where the checkpoint was written."""
    state = torch.load(file)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    order.epoch, order.done = state["epoch"], state["done"]


def train(
    data: str,
    cache: str | None,
    checkpoint: Path,
    *,
    epochs: int = 3,
    workers: int = 2,
    save_every: int = 4,
    stop_after: int | None = None,
) -> torch.nn.Module:
    """The trained model; after `stop_after` steps it stops as a killed job would, without a last checkpoint."""
    torch.manual_seed(SEED)
    model = torch.nn.Linear(FEATURES, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with headrace.open_dataset(data, cache=cache) as dataset:
        loader, order = open_loader(dataset, workers)
        if checkpoint.exists():
            load(checkpoint, model, optimizer, order)
        steps = 0
        while order.epoch < epochs:
            waited_s, asked = 0.0, time.perf_counter()
            before = dataset.status().reads
            for inputs, labels in loader:
                waited_s += time.perf_counter() - asked
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(inputs), labels).backward()
                optimizer.step()
                order.done += len(labels)
                steps += 1
                if steps % save_every == 0:
                    save(checkpoint, model, optimizer, order)
                if steps == stop_after:
                    return model
                asked = time.perf_counter()
            reads = dataset.status().reads
            fetched = reads.origin_bytes - before.origin_bytes
            print(
                f"epoch {order.epoch}: {fetched:,} bytes from the storage, waited {waited_s:.2f} s for data"
            )
            order.epoch, order.done = order.epoch + 1, 0
        save(checkpoint, model, optimizer, order)
    return model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="s3://bucket/prefix, a folder, or a mountpoint of Headrace")
    parser.add_argument("--cache", help="FOLDER:QUOTA; leave it out for a mountpoint")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"))
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    train(
        arguments.data,
        arguments.cache,
        arguments.checkpoint,
        epochs=arguments.epochs,
        workers=arguments.workers,
    )


if __name__ == "__main__":
    main()
