"""Reads batches into memory that is made once, with the order told ahead: for loops that use no framework's loader."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy

import headrace
from headrace.client.read_order import epoch_order

BATCH = 16


def batches_of(dataset: headrace.Dataset, paths: list[str], *, epoch: int) -> Iterator[list[memoryview]]:
    """The files of each batch; a batch is overwritten by the next one."""
    order = [paths[index] for index in epoch_order(len(paths), seed=17, epoch=epoch, shuffle=True)]
    largest = max(dataset.size(path) for path in paths)
    memory = numpy.empty(BATCH * largest, dtype=numpy.uint8)
    dataset.prefetch(order)
    for start in range(0, len(order), BATCH):
        yield dataset.read_many(order[start : start + BATCH], out=memory)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="s3://bucket/prefix, a folder, or a mountpoint of Headrace")
    parser.add_argument("--cache", help="FOLDER:QUOTA; leave it out for a mountpoint")
    arguments = parser.parse_args()
    with headrace.open_dataset(arguments.data, cache=arguments.cache) as dataset:
        paths = dataset.files("train/**")
        for epoch in range(3):
            size = sum(len(view) for batch in batches_of(dataset, paths, epoch=epoch) for view in batch)
            print(f"epoch {epoch}: {size:,} bytes")


if __name__ == "__main__":
    main()
