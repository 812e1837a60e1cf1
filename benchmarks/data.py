"""The dataset: made once for a run, as objects of the server and as the plain copy that the local file system reads.

Every file holds other bytes, so nothing can be compressed or shared between files. The same sizes give the same
bytes. Knows no contender.
"""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path

from benchmarks.native import FileLoop, LoopError
from benchmarks.settings import MEBIBYTE, SMALL_FILE_BYTES, Scale
from headrace.testing.buckets import adopt_file

BUCKET = "benchmark"
LARGE, SMALL, EPOCH = "large", "small", "epoch"
FILES_IN_A_CLASS = 200
MAKING_LIMIT_S = 120
# The storage's own, one in the caches of the cluster, and one for each node of a peer that caches for itself.
CLUSTER_COPIES = 6
# Two buckets, the plain copy, and the caches of two nodes; one contender at a time.
MODEL_COPIES = 5
CHECKSUM_ATTRIBUTE = "user.checksums"


class NotEnoughSpaceError(OSError):
    """The disk cannot hold the data of this run."""


def check_space(folder: Path, scale: Scale, contenders: int) -> None:
    """`NotEnoughSpaceError` unless the bucket, its copy and every contender's cache fit."""
    needed = scale.data_bytes() * (2 + contenders) + scale.cluster_bytes() * CLUSTER_COPIES
    needed += scale.model_bytes() * MODEL_COPIES
    free = shutil.disk_usage(folder).free
    if free < needed:
        message = f"{folder} has {free >> 30} GiB free, this run needs up to {(needed >> 30) + 1} GiB"
        raise NotEnoughSpaceError(f"{message}; choose another folder with --work, or run with --quick")


def make_bucket(bucket: Path, scale: Scale) -> None:
    """Fills the bucket's folder with large, small and epoch files, each a full object with its etag."""
    for index in range(scale.large_files):
        _write(bucket, large_name(index), scale.large_file_bytes)
    for folder, count in ((SMALL, scale.small_files), (EPOCH, scale.epoch_files)):
        for index in range(count):
            _write(bucket, small_name(folder, index), SMALL_FILE_BYTES)


def make_cluster_bucket(bucket: Path, scale: Scale) -> list[str]:
    """Fills the folder that the cluster's storage serves; the names of its files."""
    names = [large_name(index) for index in range(scale.cluster_files)]
    for name in names:
        _write(bucket, name, scale.cluster_file_bytes)
    return names


def copy_bucket(bucket: Path, target: Path) -> None:
    """The plain copy: the same bytes in other files, so that no page cache is shared with the server."""
    shutil.copytree(bucket, target, copy_function=shutil.copyfile)


def large_name(index: int) -> str:
    return f"{LARGE}/shard-{index:05d}.bin"


def small_name(folder: str, index: int) -> str:
    return f"{folder}/class-{index // FILES_IN_A_CLASS:04d}/image-{index:06d}.jpg"


def large_paths(tree: Path, scale: Scale) -> list[Path]:
    return [tree / large_name(index) for index in range(scale.large_files)]


def small_paths(tree: Path, count: int, *, seed: int | None = None) -> list[Path]:
    """The first `count` small files; in an order of their own when a seed is given, as a shuffled epoch reads."""
    names = [small_name(SMALL, index) for index in range(count)]
    return [tree / name for name in ordered(names, seed)]


def epoch_paths(tree: Path, count: int, *, seed: int) -> list[Path]:
    """The files of the epoch folder, which `tree` shows as its root, in the order of one shuffled epoch."""
    names = [small_name(EPOCH, index).removeprefix(f"{EPOCH}/") for index in range(count)]
    return [tree / name for name in ordered(names, seed)]


def wide_name(entries: int) -> str:
    """The directory that holds so many entries."""
    return f"wide-{entries}"


def entry_name(index: int) -> str:
    return f"sample-{index:09d}.jpg"


def make_wide_directory(folder: Path, entries: int, loop: FileLoop) -> None:
    """Empty files, as many as asked for, with the names that the listing server tells.

    LoopError when the disk is too busy to make them within their time; the folder is gone then.
    """
    folder.mkdir(parents=True)
    paths = [folder / entry_name(index) for index in range(entries)]
    made = loop.run("create", paths, seconds=MAKING_LIMIT_S, threads=2).operations
    if made < entries:
        remove_folder(folder)
        raise LoopError(f"this disk made only {made:,} of {entries:,} files in {MAKING_LIMIT_S} s")


def remove_folder(folder: Path) -> None:
    """By rm, which takes a fifth of the time of shutil.rmtree for a million files."""
    subprocess.run(["rm", "-rf", "--one-file-system", "--", str(folder)], check=False)


def ordered(names: list[str], seed: int | None) -> Sequence[str]:
    if seed is not None:
        random.Random(seed).shuffle(names)
    return names


def register_object(path: Path) -> None:
    """Makes a file that already lies in a bucket's folder a full object, with its etag and its checksum."""
    adopt_file(path)
    checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(MEBIBYTE):
            checksum = zlib.crc32(chunk, checksum)
    _store_checksum(path, checksum)


def _write(bucket: Path, name: str, size_bytes: int) -> None:
    path = bucket / name
    path.parent.mkdir(parents=True, exist_ok=True)
    source = random.Random(name)
    checksum = 0
    with path.open("wb") as file:
        for start in range(0, size_bytes, MEBIBYTE):
            chunk = source.randbytes(min(MEBIBYTE, size_bytes - start))
            checksum = zlib.crc32(chunk, checksum)
            file.write(chunk)
    adopt_file(path)
    _store_checksum(path, checksum)


def _store_checksum(path: Path, crc32: int) -> None:
    """As versitygw stores it. Without one it lists an empty ChecksumAlgorithm, which mountpoint-s3 refuses to read."""
    value = base64.b64encode(crc32.to_bytes(4, "big")).decode()
    checksums = {"Algorithm": "CRC32", "Type": "FULL_OBJECT", "CRC32": value}
    os.setxattr(path, CHECKSUM_ATTRIBUTE, json.dumps(checksums).encode())
