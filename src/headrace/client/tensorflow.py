"""tf.data over a dataset: whole files or TFRecord shards, with each epoch's order told to the engine beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from headrace.client.dataset import Dataset
from headrace.client.orders import epoch_order
from headrace.client.tfrecords import records


def file_source(
    dataset: Dataset,
    paths: Sequence[str] | None = None,
    *,
    shuffle: bool = False,
    seed: int = 0,
    parallel: int = 8,
    deterministic: bool = True,
) -> tf.data.Dataset:
    """A tf.data source of (path, content) string pairs, each file once an epoch; each iteration is an epoch.

    `paths` are those files (all files, sorted, by default).
    """
    names = list(dataset.files() if paths is None else paths)

    def read(path: Any) -> bytes:
        return dataset.read(path.decode("utf-8", "surrogateescape"))

    def pair(path: Any) -> tuple[Any, Any]:
        content = tf.numpy_function(read, [path], tf.string, stateful=False)
        content.set_shape(())
        return path, content

    order = _order_source(dataset, names, shuffle=shuffle, seed=seed)
    return order.map(pair, num_parallel_calls=parallel, deterministic=deterministic)


def record_source(
    dataset: Dataset,
    shards: Sequence[str],
    *,
    shuffle: bool = False,
    seed: int = 0,
    cycle: int = 4,
    deterministic: bool = True,
) -> tf.data.Dataset:
    """A tf.data source of the records in TFRecord shards, `cycle` shards side by side; `shuffle` shuffles the shards.

    Through its mount, when the dataset was reached through one, TensorFlow reads the shards itself; otherwise the SDK
    does.
    """
    order = _order_source(dataset, list(shards), shuffle=shuffle, seed=seed)
    return order.interleave(
        lambda shard: _records_of(dataset, shard),
        cycle_length=cycle,
        num_parallel_calls=cycle,
        deterministic=deterministic,
    )


def _records_of(dataset: Dataset, shard: Any) -> tf.data.Dataset:
    if dataset.mountpoint is not None:
        return tf.data.TFRecordDataset(tf.strings.join([f"{dataset.mountpoint}/", shard]))

    def read(path: Any) -> Iterator[bytes]:
        name = path.decode("utf-8", "surrogateescape")
        with dataset.open(name) as file:
            yield from records(file, name=name)

    return tf.data.Dataset.from_generator(read, output_signature=tf.TensorSpec((), tf.string), args=(shard,))


def _order_source(dataset: Dataset, names: list[str], *, shuffle: bool, seed: int) -> tf.data.Dataset:
    """The names, in a new order each time it is iterated; the engine hears of it before the first one is used."""
    epoch = -1

    def order() -> Iterator[bytes]:
        nonlocal epoch
        epoch += 1
        chosen = [names[index] for index in epoch_order(len(names), seed=seed, epoch=epoch, shuffle=shuffle)]
        dataset.prefetch(chosen)
        for name in chosen:
            yield name.encode("utf-8", "surrogateescape")

    source = tf.data.Dataset.from_generator(order, output_signature=tf.TensorSpec((), tf.string))
    return source.apply(tf.data.experimental.assert_cardinality(len(names)))
