"""Reads TFRecord shards with TensorFlow: shards in a new order each epoch, several side by side, records shuffled."""

from __future__ import annotations

import argparse

import tensorflow as tf

import headrace
from headrace.client.tensorflow import record_source


def records_of(dataset: headrace.Dataset) -> tf.data.Dataset:
    """The records of all shards; each iteration is an epoch."""
    shards = dataset.files("train-*.tfrecord")
    return record_source(dataset, shards, shuffle=True, seed=17, cycle=4).shuffle(1000, seed=17)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="s3://bucket/prefix, a folder, or a mountpoint of Headrace")
    parser.add_argument("--cache", help="FOLDER:QUOTA; leave it out for a mountpoint")
    arguments = parser.parse_args()
    with headrace.open_dataset(arguments.data, cache=arguments.cache) as dataset:
        records = records_of(dataset)
        for epoch in range(3):
            print(f"epoch {epoch}: {sum(1 for _ in records)} records")


if __name__ == "__main__":
    main()
