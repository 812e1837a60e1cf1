"""Trains with TensorFlow on one file a sample: epochs, and a checkpoint in the middle of an epoch.

The data is `train/CLASS/NAME`. The model is small on purpose: what is shown here is how samples come to it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import tensorflow as tf

import headrace
from headrace.client.read_order import epoch_order
from headrace.client.tensorflow import file_source

SEED = 17
BATCH = 16
FEATURES = 1024


def decode(path: tf.Tensor, content: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """A sample. Your decoder stands here; the class is the folder's name."""
    pixels = tf.io.decode_raw(tf.strings.substr(content, 0, FEATURES), tf.uint8)
    label = tf.strings.to_number(tf.strings.split(path, "/")[-2], tf.int32)
    return tf.ensure_shape(tf.cast(pixels, tf.float32) / 255, (FEATURES,)), label


def batches_of(dataset: headrace.Dataset, paths: list[str], *, epoch: int, done: int) -> tf.data.Dataset:
    """The batches of an epoch, without its first `done` samples: those are not read again."""
    order = epoch_order(len(paths), seed=SEED, epoch=epoch, shuffle=True)
    remaining = [paths[index] for index in order[done:]]
    return file_source(dataset, remaining).map(decode).batch(BATCH).prefetch(2)


def fit(dataset: headrace.Dataset, model: tf.keras.Model, *, epochs: int) -> None:
    """The short way, for Keras: each iteration of the source is an epoch in a new order."""
    batches = (
        file_source(dataset, dataset.files("train/**"), shuffle=True, seed=SEED).map(decode).batch(BATCH)
    )
    model.fit(batches.prefetch(2), epochs=epochs, verbose=0)


def new_model() -> tf.keras.Model:
    """A model with the seed's first weights."""
    tf.keras.utils.set_random_seed(SEED)
    model = tf.keras.Sequential([tf.keras.Input((FEATURES,)), tf.keras.layers.Dense(10)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.SGD(0.1, momentum=0.9), loss)
    return model


def train(
    data: str,
    cache: str | None,
    folder: Path,
    *,
    epochs: int = 3,
    save_every: int = 4,
    stop_after: int | None = None,
) -> tf.keras.Model:
    """The trained model; after `stop_after` steps it stops as a killed job would, without a last checkpoint."""
    model = new_model()
    epoch, done = tf.Variable(0, dtype=tf.int64), tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer, epoch=epoch, done=done)
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    model.optimizer.build(model.trainable_variables)
    checkpoint.restore(manager.latest_checkpoint)
    with headrace.open_dataset(data, cache=cache) as dataset:
        paths = dataset.files("train/**")
        steps = 0
        while int(epoch) < epochs:
            for inputs, labels in batches_of(dataset, paths, epoch=int(epoch), done=int(done)):
                model.train_on_batch(inputs, labels)
                done.assign_add(len(labels))
                steps += 1
                if steps % save_every == 0:
                    manager.save()
                if steps == stop_after:
                    return model
            epoch.assign_add(1)
            done.assign(0)
        manager.save()
    return model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="s3://bucket/prefix, a folder, or a mountpoint of Headrace")
    parser.add_argument("--cache", help="FOLDER:QUOTA; leave it out for a mountpoint")
    parser.add_argument("--checkpoints", type=Path, default=Path("checkpoints"))
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    train(arguments.data, arguments.cache, arguments.checkpoints, epochs=arguments.epochs)


if __name__ == "__main__":
    main()
