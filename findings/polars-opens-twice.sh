#!/usr/bin/env bash
# Polars 2.1.0: `write_parquet` and `sink_parquet` open the file twice: it is made empty and closed, and only then opened again and
# written. PyArrow opens it once. On file systems that upload when a file is closed, and tell watchers then, an empty object comes
# first, for which readers get "file size is 0 bytes"; storage that keeps objects from being written over refuses the second.
# Needs Python with venv, and Linux for inotify. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'polars==2.1.0' 'pyarrow==26.0.1'
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import ctypes
import os
import struct

import polars
import pyarrow
import pyarrow.parquet

OPENED, CLOSED_AFTER_WRITING = 0x20, 0x8
libc = ctypes.CDLL(None, use_errno=True)
os.mkdir("out")
watch = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(watch, b"out", OPENED | CLOSED_AFTER_WRITING) >= 0


def closed() -> int:
    """How often a file of the folder was closed since the last call, by whoever had it open for writing."""
    content, count, begin = os.read(watch, 1 << 16), 0, 0
    while begin < len(content):
        _, mask, _, length = struct.unpack_from("iIII", content, begin)
        begin += 16 + length
        count += mask == CLOSED_AFTER_WRITING
    return count


found = {}
polars.DataFrame({"x": [1]}).write_parquet("out/a.parquet")
found["write_parquet"] = closed()
polars.LazyFrame({"x": [1]}).sink_parquet("out/b.parquet")
found["sink_parquet"] = closed()
pyarrow.parquet.write_table(pyarrow.table({"x": [1]}), "out/c.parquet")
found["PyArrow"] = closed()
print(f"times that the file was closed: {found}")
assert found == {"write_parquet": 2, "sink_parquet": 2, "PyArrow": 1}
PYTHON
