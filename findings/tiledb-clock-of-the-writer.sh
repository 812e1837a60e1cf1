#!/usr/bin/env bash
# TileDB 0.36.1 (Python): an array is opened as of now by the reader's clock, and what was written under a later time is not
# there, without a word: the reader gets the former values. Writers name fragments by their own clocks. So what a machine
# writes whose clock is a minute ahead cannot be read elsewhere for a minute, although its write has returned and the files are there; and
# of two writes the one with the later clock wins. Here the writer's time is given by hand.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'tiledb==0.36.1' 'numpy==2.4.6'
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import os
import time

import numpy
import tiledb

domain = tiledb.Domain(tiledb.Dim(name="i", domain=(0, 3), tile=4, dtype=numpy.int32))
tiledb.Array.create("array", tiledb.ArraySchema(domain=domain, attrs=[tiledb.Attr(dtype=numpy.int64)]))
soon_ms = int(time.time() * 1000) + 3_600_000
with tiledb.open("array", "w") as array:
    array[:] = numpy.array([1, 2, 3, 4])
with tiledb.open("array", "w", timestamp=soon_ms) as array:
    array[:] = numpy.array([10, 20, 30, 40])
fragments = len(os.listdir("array/__fragments"))
with tiledb.open("array") as array:
    now = array[:].tolist()
with tiledb.open("array", timestamp=soon_ms) as array:
    later = array[:].tolist()
print(f"{fragments} fragments; read now: {now}, read as of the writer's time: {later}")
assert (fragments, now, later) == (2, [1, 2, 3, 4], [10, 20, 30, 40])
PYTHON
