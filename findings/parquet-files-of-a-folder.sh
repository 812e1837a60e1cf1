#!/usr/bin/env bash
# PyArrow 26.0.1, datasets 5.2.0, DuckDB 2.0.1 and Polars 2.1.0: a folder with `part-0`, `_part-1`, `.part-2` and `sub/part-3`, each a
# Parquet file of one row, has 2, 3 or 4 rows, depending on who reads it, without a word from anybody: PyArrow leaves out names with
# `_` and `.` before them, datasets those with `.`, DuckDB and Polars nothing. One would expect one answer, or to
# be told what was left out. Tools that write temporary files beside the parts, or upload to names with a dot first, change
# the number of samples of some readers and not of others.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'pyarrow==26.0.1' 'datasets==5.2.0' 'duckdb==2.0.1' 'polars==2.1.0'
cd "$work"
HF_HOME=$work/hf "$work/venv/bin/python" - <<'PYTHON'
import pathlib

import datasets
import duckdb
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet

datasets.disable_progress_bars()
names = ("part-0", "_part-1", ".part-2", "sub/part-3")
for number, name in enumerate(names):
    path = pathlib.Path("data", f"{name}.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table({"x": [number]}), path)
ALL = "data/**/*.parquet"
seen = {
    "PyArrow": pyarrow.dataset.dataset("data", format="parquet").to_table()["x"].to_pylist(),
    "datasets": datasets.load_dataset("parquet", data_files=ALL, split="train")["x"][:],
    "DuckDB": [row[0] for row in duckdb.sql(f"select x from '{ALL}'").fetchall()],
    "Polars": polars.scan_parquet("data").collect()["x"].to_list(),
}
found = {reader: sorted(values) for reader, values in seen.items()}
print(f"files {dict(enumerate(names))}; read: {found}")
assert found == {"PyArrow": [0, 3], "datasets": [0, 1, 3], "DuckDB": [0, 1, 2, 3], "Polars": [0, 1, 2, 3]}
PYTHON
