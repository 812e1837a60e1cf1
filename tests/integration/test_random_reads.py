"""Processes read at random, by `pread` and by `mmap`, through a cache of half the data, while it is worked on.

With few of them, and once; tests/soak has more.
"""

from __future__ import annotations

import mmap
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from .harness import DEADLINE_S, Shell, drop_page_cache, mode_words
from .servers import Bucket

LEAST_READS = 10
SIZES = [1, 4095, 4096, 4097, 131_072, 1 << 20, (1 << 20) + 1, 3_000_001, 9_000_003]


def read_at_random(source: Path, mountpoint: Path, seed: int, stop: Path) -> int:
    """Compares random ranges of random files with the source until there is a file `stop`; the ranges compared.

    Raises at the first difference.
    """
    chance = random.Random(seed)
    names = sorted(path.name for path in source.iterdir())
    count = 0
    print("ready", flush=True)  # noqa: T201 - to the parent
    while not stop.exists() or count <= LEAST_READS:
        name = chance.choice(names)
        expected = (source / name).read_bytes()
        descriptor = os.open(mountpoint / name, os.O_RDONLY)
        try:
            for _ in range(chance.randrange(1, 12)):
                offset = chance.randrange(len(expected) + 4096)
                length = chance.choice([1, 511, 4096, 65_536, 300_000])
                found = pick(descriptor, len(expected), offset, length, mapped=chance.random() < 0.4)
                if found != expected[offset : offset + length]:
                    raise SystemExit(f"seed {seed}: {name} differs in [{offset}, {offset + length})")
                count += 1
        finally:
            os.close(descriptor)
    return count


def pick(descriptor: int, size: int, offset: int, length: int, *, mapped: bool) -> bytes:
    """The range, by a mapping or by `pread` until the end."""
    if mapped:
        with mmap.mmap(descriptor, size, prot=mmap.PROT_READ) as view:
            return view[offset : offset + length]
    pieces = []
    while length > 0 and (piece := os.pread(descriptor, length, offset)):
        pieces.append(piece)
        offset, length = offset + len(piece), length - len(piece)
    return b"".join(pieces)


@pytest.mark.parametrize("mode", ["passthrough", "elide", "classic", "view"])
def test_every_random_read_is_right_while_the_cache_is_worked_on(
    shell: Shell, tmp_path: Path, mode: str, bucket: Bucket
) -> None:
    read_while_it_is_worked_on(shell, tmp_path, mode, bucket, readers=2, rounds=1)


def read_while_it_is_worked_on(
    shell: Shell, tmp_path: Path, mode: str, bucket: Bucket, *, readers: int, rounds: int
) -> None:
    """So many processes compare what they read until the cache was worked on so many times."""
    source = tmp_path / "source"
    source.mkdir()
    content = {f"file-{number}": random.Random(number).randbytes(size) for number, size in enumerate(SIZES)}
    for name, data in content.items():
        (source / name).write_bytes(data)
    bucket.fill(content)
    words = [*mode_words(mode), "--block-size", "256Ki"]
    arguments = {"cache": tmp_path / "cache", "quota": "8Mi", "options": bucket.options}
    with shell.mounted(bucket.uri, tmp_path / "mnt", *words, **arguments) as mountpoint:
        stop = tmp_path / "stop"
        started = [start_reader(source, mountpoint, seed, stop) for seed in range(readers)]
        try:
            for reader in started:
                assert reader.stdout is not None
                assert reader.stdout.readline() == "ready\n", reader.communicate(timeout=DEADLINE_S)
            work_on(shell, mountpoint, bucket, rounds)
            reading = [reader.poll() is None for reader in started]
        finally:
            stop.touch()
            ended = [(reader.communicate(timeout=DEADLINE_S), reader.returncode) for reader in started]
        assert [code for _, code in ended] == [0] * readers, ended
        assert all(reading), "they read all the time"
        assert all(int(talk[0]) > LEAST_READS for talk, _ in ended), "too few reads to prove anything"
        assert shell.status(mountpoint)["corrupt_blocks"] == 0


def start_reader(source: Path, mountpoint: Path, seed: int, stop: Path) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "tests.integration.test_random_reads",
        str(source),
        str(mountpoint),
        str(seed),
        str(stop),
    ]
    return subprocess.Popen(
        command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def work_on(shell: Shell, mountpoint: Path, bucket: Bucket, rounds: int) -> None:
    """Evicts, goes on to a list with another file in it, verifies and empties the page cache."""
    for number in range(rounds):
        bucket.fill({f"new-{number}": b"new"})
        for words in (["evict", mountpoint, "--all"], ["refresh", mountpoint], ["verify", mountpoint]):
            shell.must(*words)
            drop_page_cache()


if __name__ == "__main__":
    origin, mounted, number, end = sys.argv[1:]
    print(read_at_random(Path(origin), Path(mounted), int(number), Path(end)))  # noqa: T201 - the answer to the parent
