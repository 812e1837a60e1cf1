#!/usr/bin/env bash
# datasets 5.2.0: `load_dataset` takes its Arrow copy of an earlier run for that of the file that is there now, if a local file
# has the same modification time, although rows and size differ: `rsync -t`, `cp -p`, `tar` and `mv` leave it so. Of a file
# system of fsspec that tells neither `ETag` nor `mtime` (memory here; archives, too) it asks nothing at all: whatever is written
# there, the first content is what one trains on. One would expect at least the size to count.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'datasets==5.2.0' 'fsspec==2026.9.0' 'pyarrow==26.0.1'
cd "$work"
HF_HOME=$work/hf "$work/venv/bin/python" - <<'PYTHON'
import os

import datasets
import fsspec
import pyarrow
import pyarrow.parquet

datasets.disable_progress_bars()


def loaded(address: str) -> list[int]:
    return datasets.load_dataset("parquet", data_files=address, split="train")["x"][:]


def table(*values: int) -> pyarrow.Table:
    return pyarrow.table({"x": values})


pyarrow.parquet.write_table(table(1, 2), "data.parquet")
first, before = loaded("data.parquet"), os.stat("data.parquet")
pyarrow.parquet.write_table(table(*range(70, 170)), "new.parquet")
os.utime("new.parquet", ns=(before.st_atime_ns, before.st_mtime_ns))
os.replace("new.parquet", "data.parquet")
second, size = loaded("data.parquet"), os.path.getsize("data.parquet")
print(f"file of {before.st_size} bytes: {first}; replaced by one of {size} bytes and the same time: {second}")
assert size != before.st_size
assert first == second == [1, 2]

memory = fsspec.filesystem("memory")
seen = []
for values in ((1, 2), (7, 8, 9)):
    with memory.open("/data.parquet", "wb") as file:
        pyarrow.parquet.write_table(table(*values), file)
    seen.append(loaded("memory://data.parquet"))
print(f"file in memory: {seen[0]}; written anew: {seen[1]}")
assert seen == [[1, 2], [1, 2]]
PYTHON
