"""The input pipeline: TFRecords of ImageNet's shape to batches, through tf.data.

As in tf_cnn_benchmarks, every rank reads all files, in an order of its own that it draws anew for each round.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import tensorflow as tf

FEATURES = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}
READ_BYTES = 1 << 20
MEAN_RGB = (123.68, 116.78, 103.94)
SPREAD_RGB = 58.0


def shards(folder: Path, split: str) -> list[str]:
    """The files `<split>-XXXXX-of-YYYYY` of a folder, in order. Ends the program when there are none."""
    found = sorted(str(path) for path in folder.glob(f"{split}-?????-of-?????"))
    if not found:
        raise SystemExit(f"train.py: there are no files {split}-XXXXX-of-YYYYY in {folder}; look at DATA_DIR")
    return found


def training_records(
    files: list[str], *, rank: int, seed: int, parallel_files: int, threads: int, shuffle_images: int
) -> tf.data.Dataset:
    """Encoded records of all files without end; the same for the same rank and seed."""
    own_seed = zlib.crc32(f"{seed}/{rank}".encode())
    names = tf.data.Dataset.from_tensor_slices(files)
    names = names.shuffle(len(files), seed=own_seed, reshuffle_each_iteration=True).repeat()
    records = names.interleave(
        _records_of,
        cycle_length=parallel_files,
        num_parallel_calls=min(threads, parallel_files) if threads else tf.data.AUTOTUNE,
        deterministic=True,
    )
    if shuffle_images:
        records = records.shuffle(shuffle_images, seed=own_seed)
    return records.with_options(_options(threads))


def decoded_batches(records: tf.data.Dataset, *, batch: int, size_px: int, ahead: int) -> tf.data.Dataset:
    """(images, labels, bytes read) for a network: every image is decoded."""

    def decode(record):
        image, label = _decode(record, size_px)
        return image, label, tf.cast(tf.strings.length(record), tf.int64)

    batches = records.map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(batch, drop_remainder=True)
    return batches.map(lambda image, label, size: (image, label, tf.reduce_sum(size))).prefetch(ahead)


def sampled_batches(
    records: tf.data.Dataset, *, batch: int, sample: int, size_px: int, ahead: int
) -> tf.data.Dataset:
    """(images, labels, bytes read) for an emulated accelerator: of a batch that is read, the first few are decoded."""

    def open_sample(encoded):
        images, labels = tf.map_fn(
            lambda record: _decode(record, size_px),
            encoded[:sample],
            fn_output_signature=(tf.float32, tf.int64),
        )
        size_bytes = tf.reduce_sum(tf.cast(tf.strings.length(encoded), tf.int64))
        return (
            tf.ensure_shape(images, (sample, size_px, size_px, 3)),
            tf.ensure_shape(labels, (sample,)),
            size_bytes,
        )

    return records.batch(batch, drop_remainder=True).map(open_sample, num_parallel_calls=2).prefetch(ahead)


def validation_batches(
    files: list[str], *, rank: int, ranks: int, images: int, size_px: int
) -> tf.data.Dataset:
    """(images, labels) of this rank's share of the validation files, once; `images` of all ranks together, 0: all."""
    if len(files) % ranks == 0:
        # Files of its own: nobody reads what another one counts.
        share = tf.data.TFRecordDataset(files[rank::ranks], buffer_size=READ_BYTES)
        share = share.take(-(-images // ranks)) if images else share
    else:
        share = tf.data.TFRecordDataset(files, buffer_size=READ_BYTES).take(images or -1).shard(ranks, rank)
    return share.map(lambda record: _decode(record, size_px), num_parallel_calls=2).batch(64)


def _records_of(name) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(name, buffer_size=READ_BYTES)


def _options(threads: int) -> tf.data.Options:
    options = tf.data.Options()
    options.deterministic = True
    if threads:
        options.threading.private_threadpool_size = threads
    return options


def _decode(record, size_px: int):
    features = tf.io.parse_single_example(record, FEATURES)
    # A thumbnail needs an eighth of the pixels in each direction, and JPEG can be decoded like that.
    ratio = 8 if size_px <= 48 else 1
    image = tf.io.decode_jpeg(features["image/encoded"], channels=3, ratio=ratio)
    image = tf.image.resize(tf.cast(image, tf.float32), (size_px, size_px))
    return (image - MEAN_RGB) / SPREAD_RGB, features["image/class/label"]
