"""Fashion-MNIST (70,000 real product photographs of 28×28 pixels) as TFRecord shards and as single PNG files.

The data is Debian's dataset-fashion-mnist. Both forms hold the same pixels: records are `tf.train.Example`
with "image" (784 raw bytes) and "label" (int64); files are `train/<label>/<number>.png`.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.testing.buckets import adopt_folder, set_etag
from headrace.testing.debian_packages import package_root
from headrace.testing.tfrecords import encode_records

PACKAGE = "dataset-fashion-mnist"
DATA_FOLDER = "usr/share/datasets/fashion-mnist"
SPLITS = {"train": "train", "test": "t10k"}
# A mark that changes when the files would differ.
FOLDER_NAME = "fashion-mnist-1"
RECORDS_PER_SHARD = 5_000


@dataclass(frozen=True)
class Split:
    """Images (count, 28, 28) and labels (count,), both bytes."""

    images: NDArray[np.uint8]
    labels: NDArray[np.uint8]


def make_fashion_mnist(cache: Path) -> Path:
    """The folder with `tfrecord/` and `png/`, made unless it is there; about 10 s. Files carry their etags."""
    folder = cache / FOLDER_NAME
    if folder.exists():
        return folder
    unfinished = cache / f"{FOLDER_NAME}.{os.getpid()}.unfinished"
    try:
        for name in SPLITS:
            split = load_split(name, cache)
            _write_shards(name, split, unfinished / "tfrecord")
            _write_pngs(split, unfinished / "png" / name)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def load_split(name: str, cache: Path) -> Split:
    """The split "train" (60,000 images) or "test" (10,000)."""
    folder = package_root(PACKAGE, DATA_FOLDER, cache=cache / "debian") / DATA_FOLDER
    images = _read_idx(folder / f"{SPLITS[name]}-images-idx3-ubyte.gz")
    return Split(images, _read_idx(folder / f"{SPLITS[name]}-labels-idx1-ubyte.gz"))


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """An array of bytes in MNIST's IDX format: two zeros, type 8, number of dimensions, sizes, data."""
    content = gzip.decompress(path.read_bytes())
    zeros, type_code, dimensions = struct.unpack_from(">HBB", content)
    if zeros != 0 or type_code != 8:
        raise ValueError(f"{path} is not an IDX file of bytes")
    shape = struct.unpack_from(f">{dimensions}I", content, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def _write_shards(name: str, split: Split, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    count = -(-len(split.labels) // RECORDS_PER_SHARD)
    for shard in range(count):
        part = slice(shard * RECORDS_PER_SHARD, (shard + 1) * RECORDS_PER_SHARD)
        pairs = zip(split.images[part], split.labels[part], strict=True)
        examples = [encode_example(image.tobytes(), int(label)) for image, label in pairs]
        (folder / f"{name}-{shard:05d}-of-{count:05d}").write_bytes(encode_records(examples))
    adopt_folder(folder)


def encode_example(image: bytes, label: int) -> bytes:
    """The `tf.train.Example` {"image": bytes, "label": int64} in Protocol Buffers' wire format."""
    image_feature = _field(1, _field(1, image))
    label_feature = _field(3, _field(1, bytes([label])))
    features = _map_entry(b"image", image_feature) + _map_entry(b"label", label_feature)
    return _field(1, features)


def _map_entry(key: bytes, feature: bytes) -> bytes:
    return _field(1, _field(1, key) + _field(2, feature))


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _write_pngs(split: Split, folder: Path) -> None:
    for label in np.unique(split.labels):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
    for number, (image, label) in enumerate(zip(split.images, split.labels, strict=True)):
        content = encode_png(image)
        path = folder / str(label) / f"{number:05d}.png"
        path.write_bytes(content)
        set_etag(path, hashlib.md5(content, usedforsecurity=False).hexdigest())


def encode_png(image: NDArray[np.uint8]) -> bytes:
    """An 8-bit grey PNG of an image (height, width)."""
    height, width = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    # Each row starts with its filter; 0 is "none".
    rows = np.pad(image, ((0, 0), (1, 0))).tobytes()
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunks(chunks))


def _chunks(chunks: tuple[tuple[bytes, bytes], ...]) -> Iterator[bytes]:
    for name, content in chunks:
        yield struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
