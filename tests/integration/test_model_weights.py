"""Weights of a model over a mount, by the loaders that people have, unmodified: right, each byte of the bucket once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load, load_file, save

from .harness import Shell, mode_words
from .servers import Bucket

SHARDS = 2
WIDTH = 700
Contents = Mapping[str, bytes]


@functools.cache
def shards() -> dict[str, dict[str, np.ndarray]]:
    """By object: matrices that begin and end anywhere in a page and in a block, vectors, and one of nothing."""
    return {f"model-{index:05}.safetensors": _tensors(index) for index in range(SHARDS)}


def _tensors(shard: int) -> dict[str, np.ndarray]:
    source = np.random.default_rng(shard)
    shapes = [(WIDTH, WIDTH), (3 * WIDTH, WIDTH), (WIDTH, 3 * WIDTH), (WIDTH,), (1,), (0, WIDTH)]
    return {
        f"layers.{shard}.{number}.weight": source.integers(0, 2**16, shape, np.uint16).view(np.float16)
        for number, shape in enumerate(shapes)
    }


def _contents(tensors: Mapping[str, Any]) -> Contents:
    """Bytes, for what is no number is not equal to itself."""
    return {name: np.asarray(tensor).tobytes() for name, tensor in tensors.items()}


def by_file(path: Path) -> Contents:
    return _contents(load_file(path))


def by_one_read(path: Path) -> Contents:
    return _contents(load(path.read_bytes()))


def by_torch(path: Path) -> Contents:
    """Tensors that lie in a map of the file, and are looked at when it is closed."""
    pytest.importorskip("torch", reason="needs python3-torch (make setup)")
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


def by_slices(path: Path) -> Contents:
    """As two tensor-parallel ranks read, the one with the last columns first."""
    with safe_open(path, framework="np") as file:
        return {name: _joined(file.get_slice(name)).tobytes() for name in file.keys()}  # noqa: SIM118


def _joined(view: Any) -> np.ndarray:
    shape = view.get_shape()
    if len(shape) < 2:
        return np.asarray(view[:])
    if 0 in shape:  # which it does not slice
        return np.empty(shape, np.float16)
    half = shape[1] // 2
    last = view[:, half:]
    return np.concatenate([view[:, :half], last], axis=1)


@pytest.mark.parametrize("mode", ["passthrough", "elide", "classic", "view"])
@pytest.mark.parametrize("read", [by_file, by_one_read, by_torch, by_slices])
def test_a_model_is_loaded_right_and_each_byte_fetched_once(
    shell: Shell, tmp_path: Path, bucket: Bucket, mode: str, read: Callable[[Path], Contents]
) -> None:
    objects = {name: save(tensors) for name, tensors in shards().items()}
    bucket.fill(objects)
    words = [*mode_words(mode), "--block-size", "1Mi"]
    arguments = {"cache": tmp_path / "cache", "options": bucket.options}
    with shell.mounted(bucket.uri, tmp_path / "mnt", *words, **arguments) as mountpoint:
        for _ in ("from the bucket", "from the cache"):
            for name, tensors in shards().items():
                assert read(mountpoint / name) == _contents(tensors)
        fetched = shell.status(mountpoint)["reads"]["origin_bytes"]
    assert fetched == sum(map(len, objects.values()))
