#!/usr/bin/env bash
# zarr 3.1.6: an array whose chunk is not there reads as zeros (its `fill_value`), by `LocalStore` and through fsspec alike, without a
# warning: a chunk that was never written, which the format allows, cannot be told from one that a copy, an upload or a life-cycle rule has
# lost. One would wish to be asked. Whoever answers "not found" for an object that is only late (a cache with an old list of names, storage
# that is behind) makes good numbers of it.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'zarr==3.1.6' 'numpy==2.4.6' 'fsspec==2026.9.0'
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import pathlib
import warnings

import numpy
import zarr

warnings.simplefilter("error")
array = zarr.create_array("array.zarr", shape=(8,), chunks=(4,), dtype="i4")
array[:] = numpy.arange(1, 9)
pathlib.Path("array.zarr/c/1").unlink()
plain = zarr.open_array("array.zarr", mode="r")[:].tolist()
address = pathlib.Path("array.zarr").absolute().as_uri()
through = zarr.open_array(f"simplecache::{address}", mode="r")[:].tolist()
print(f"one of two chunks is gone: {plain}, through fsspec: {through}")
assert plain == through == [1, 2, 3, 4, 0, 0, 0, 0]
PYTHON
