"""Trains a small ResNet on Fashion-MNIST from a folder, whatever serves it, and prints what it saw as JSON.

Knows nothing of buckets or of Headrace: it reads files. The same seed gives the same batches in the same order and
deterministic kernels, so two runs over the same bytes end with the same weights.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

BATCH = 128
SHUFFLE_BUFFER = 4_096
READERS = 8
# Of the 10,000 test images, when each is a file.
TEST_FILES = 2_000
FEATURES = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def resnet() -> tf.keras.Model:
    """A ResNet of three stages for 28×28 grey images."""
    images = tf.keras.Input((28, 28, 1))
    state = _convolution(images, 16, stride=2)
    for filters, stride in ((16, 1), (32, 2), (64, 2)):
        state = _residual_block(state, filters, stride)
    pooled = tf.keras.layers.GlobalAveragePooling2D()(state)
    return tf.keras.Model(images, tf.keras.layers.Dense(10)(pooled))


def _residual_block(state, filters: int, stride: int):
    branch = tf.keras.layers.ReLU()(_convolution(state, filters, stride=stride))
    branch = _convolution(branch, filters, stride=1)
    if stride != 1 or state.shape[-1] != filters:
        state = tf.keras.layers.Conv2D(filters, 1, strides=stride, use_bias=False)(state)
    return tf.keras.layers.ReLU()(tf.keras.layers.Add()([branch, state]))


def _convolution(state, filters: int, *, stride: int):
    state = tf.keras.layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False)(state)
    return tf.keras.layers.BatchNormalization(momentum=0.9)(state)


def tfrecord_images(folder: Path, split: str, *, seed: int | None) -> tf.data.Dataset:
    """(image, label) of every record of the split; shuffled when there is a seed."""
    shards = sorted(str(path) for path in folder.glob(f"{split}-*"))
    if seed is not None:
        random.Random(seed).shuffle(shards)
    records = tf.data.TFRecordDataset(shards, num_parallel_reads=4)
    if seed is not None:
        records = records.shuffle(SHUFFLE_BUFFER, seed=seed, reshuffle_each_iteration=True)
    return records.map(_parse, num_parallel_calls=2, deterministic=True)


def png_images(folder: Path, *, count: int, seed: int) -> tf.data.Dataset:
    """(image, label) of `count` files drawn from `<label>/<number>.png`, in a shuffled order."""
    files = sorted(_labelled_files(folder))
    random.Random(seed).shuffle(files)
    chosen = files[:count]
    paths = tf.data.Dataset.from_tensor_slices(([path for path, _ in chosen], [label for _, label in chosen]))
    return paths.map(_read_png, num_parallel_calls=READERS, deterministic=True)


def _labelled_files(folder: Path) -> Iterator[tuple[str, int]]:
    for class_folder in os.scandir(folder):
        for name in os.listdir(class_folder.path):  # noqa: PTH208 - tens of thousands of names
            yield f"{class_folder.path}/{name}", int(class_folder.name)


def _parse(record):
    example = tf.io.parse_single_example(record, FEATURES)
    pixels = tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), (28, 28, 1))
    return _scaled(pixels), example["label"]


def _read_png(path, label):
    pixels = tf.io.decode_png(tf.io.read_file(path), channels=1)
    return _scaled(tf.ensure_shape(pixels, (28, 28, 1))), tf.cast(label, tf.int64)


def _scaled(pixels):
    return tf.cast(pixels, tf.float32) / 255.0


class Progress(tf.keras.callbacks.Callback):
    """Counts the images trained and says so on stderr every few seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.images = 0
        self._next_s = time.monotonic() + 5

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:  # noqa: ARG002
        self.images += BATCH  # every batch is full
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + 5
            print(f"    {self.images:,} images trained", file=sys.stderr, flush=True)


def compiled_model(seed: int) -> tf.keras.Model:
    """A model with the seed's first weights, its graph built already: building it is not what we compare."""
    tf.keras.utils.set_random_seed(seed)
    model, optimizer = resnet(), tf.keras.optimizers.Adam(0.002)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    optimizer.build(model.trainable_variables)
    variables = [*model.variables, *optimizer.variables]
    first_values = [variable.numpy() for variable in variables]
    blank = tf.data.Dataset.from_tensors((tf.zeros((BATCH, 28, 28, 1)), tf.zeros(BATCH, tf.int64)))
    model.fit(blank, verbose=0)
    for variable, value in zip(variables, first_values, strict=True):
        variable.assign(value)
    return model


def train(arguments: argparse.Namespace) -> dict[str, float]:
    """Trains and evaluates; every byte of both comes through the folder."""
    tf.config.experimental.enable_op_determinism()
    model, progress = compiled_model(arguments.seed), Progress()

    started = time.monotonic()
    images = _training_images(arguments)
    listed = time.monotonic()
    batches = images.batch(BATCH, drop_remainder=True).prefetch(4)
    model.fit(batches, epochs=arguments.epochs, verbose=0, callbacks=[progress])
    trained = time.monotonic()
    held_out = _held_out_images(arguments).batch(1_000)
    _, accuracy = model.evaluate(held_out, verbose=0)
    return {
        "list_s": listed - started,
        "time_s": trained - listed,
        "images": progress.images,
        "accuracy": accuracy,
    }


def _training_images(arguments: argparse.Namespace) -> tf.data.Dataset:
    if arguments.format == "tfrecord":
        return tfrecord_images(arguments.data, "train", seed=arguments.seed).take(arguments.images)
    return png_images(arguments.data / "train", count=arguments.images, seed=arguments.seed)


def _held_out_images(arguments: argparse.Namespace) -> tf.data.Dataset:
    if arguments.format == "tfrecord":
        return tfrecord_images(arguments.data, "test", seed=None)
    return png_images(arguments.data / "test", count=TEST_FILES, seed=arguments.seed)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("format", choices=("tfrecord", "png"))
    parser.add_argument("--images", type=int, default=12_000, help="of each epoch")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    print(json.dumps(train(parser.parse_args())))


if __name__ == "__main__":
    main()
