"""tf.data over a dataset: whole files or TFRecord shards, fetched in each epoch's order before they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headrace.client.dataset import Dataset
from headrace.client.read_order import epoch_order
from headrace.client.tfrecords import records
from headrace.extras import explained

try:
    import tensorflow as tf
except ModuleNotFoundError as error:
    raise explained(error) from None

__all__ = ["file_source", "record_source"]


def file_source(
    dataset: Dataset,
    paths: Sequence[str] | None = None,
    *,
    shuffle: bool = False,
    seed: int = 0,
    parallel: int = 8,
    deterministic: bool = True,
) -> tf.data.Dataset:
    """A tf.data source of (path, content) pairs of scalar strings, one for each of `paths`.

    `paths` are all files, sorted, by default. Each iteration is an epoch, the first one epoch 0; with `shuffle` each
    has an order of its own, which follows from `seed` and the epoch. `parallel` files are read at the same time;
    `deterministic=False` lets a file that is there overtake one that is waited for. Each epoch's order is announced by
    `Dataset.prefetch`. An error of a read ends the iteration with an error of TensorFlow that holds its message.
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
    """A tf.data source of the records in TFRecord shards, each a scalar string, of `cycle` shards side by side.

    Each iteration is an epoch. `shuffle` gives each epoch another order of shards; records stay in their order within a
    shard, so add `.shuffle(…)` for them. When the dataset was reached through its mount, TensorFlow reads the shards
    from there and checks their checksums; otherwise the SDK reads them. Each epoch's order of shards is announced by
    `Dataset.prefetch`.
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
