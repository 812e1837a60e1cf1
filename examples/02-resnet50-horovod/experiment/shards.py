"""Writes shards: real JPEGs in records with ImageNet's keys, whose labels a network can learn."""

from __future__ import annotations

import io
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# No network runs here; and that there are such operations is told on standard error whatever the level.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import tensorflow as tf
from PIL import Image

from experiment.data import TURNS, DataPlan
from headrace.testing.buckets import adopt_file
from headrace.testing.photos import PhotoCutter, PhotoSet


class ShardMaker:
    """What one process of the pool keeps."""

    current: ShardMaker

    def __init__(self, plan: DataPlan, folder: Path, cache: Path) -> None:
        wanted = PhotoSet(plan.images, mean_bytes=plan.mean_bytes, seed=plan.seed)
        self._folder, self._cutter = folder, PhotoCutter(wanted, cache)

    @classmethod
    def start(cls, plan: DataPlan, folder: Path, cache: Path) -> None:
        cls.current = cls(plan, folder, cache)

    @classmethod
    def make(cls, file: tuple[str, range]) -> None:
        cls.current.make_shard(*file)

    def make_shard(self, name: str, numbers: range) -> None:
        path = self._folder / name
        with tf.io.TFRecordWriter(str(path)) as writer:
            for number in numbers:
                turn = number % TURNS
                photograph, content = self._cutter.cut(number, turn=turn)
                writer.write(_example(number, photograph * TURNS + turn + 1, content))
        adopt_file(path)


def _example(number: int, label: int, content: bytes) -> bytes:
    """A record with the keys of ImageNet's; labels count from 1."""

    def text(value: bytes) -> tf.train.Feature:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    def whole(value: int) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    with Image.open(io.BytesIO(content)) as picture:
        width, height = picture.size
    synset = f"n{1_440_764 + label:08d}"
    features = {
        "image/encoded": text(content),
        "image/format": text(b"JPEG"),
        "image/filename": text(f"{synset}_{number}.JPEG".encode()),
        "image/colorspace": text(b"RGB"),
        "image/channels": whole(3),
        "image/height": whole(height),
        "image/width": whole(width),
        "image/class/label": whole(label),
        "image/class/synset": text(synset.encode()),
        "image/class/text": text(
            f"photograph {(label - 1) // TURNS}, colours {(label - 1) % TURNS}".encode()
        ),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
