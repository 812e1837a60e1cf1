#!/usr/bin/env bash
# h5py 3.16.0 (HDF5 2.0): rows that are read one by one from a compressed dataset whose chunks are larger than the cache of chunks
# (8 MiB) cost the whole chunk each: 64 rows of a file of 64 MiB fetch 4 GiB, and as much is decompressed. A chunk that does not
# fit is dropped as soon as it was read, also when the very next call wants it again, and nothing is said. One would expect
# the last chunk to stay. `h5py.File(…, rdcc_nbytes=…)` of a chunk's size or more helps.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'h5py==3.16.0' 'numpy==2.4.6'
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import io
import os

import h5py
import numpy

ROWS, COLUMNS, COLUMNS_OF_CHUNK = 64, 1 << 20, 1 << 18


class Counted(io.FileIO):
    """A file that counts the bytes which are read of it."""

    read_bytes = 0

    def readinto(self, buffer: memoryview) -> int:
        count = super().readinto(buffer)
        self.read_bytes += count
        return count


def fetched(**options: int) -> int:
    """The bytes that reading row by row takes."""
    with Counted("data.h5", "rb") as raw, h5py.File(raw, "r", **options) as file:
        dataset = file["x"]
        for row in range(ROWS):
            dataset[row]
        return raw.read_bytes


values = numpy.random.default_rng(0).integers(0, 255, (ROWS, COLUMNS), dtype=numpy.uint8)
with h5py.File("data.h5", "w") as file:
    file.create_dataset("x", data=values, chunks=(ROWS, COLUMNS_OF_CHUNK), compression="gzip", compression_opts=1)
size = os.path.getsize("data.h5")
plain, large = fetched() / size, fetched(rdcc_nbytes=256 << 20) / size
print(f"file of {size} bytes, read by rows: {plain:.2f} times its size; with a cache of 256 MiB: {large:.2f} times")
assert 63 < plain < 65
assert large < 1.1
PYTHON
