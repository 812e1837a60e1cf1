#!/usr/bin/env bash
# safetensors 0.8.0: `keys()` of an open file gives the names in the order of the alphabet, while the tensors lie by the size of their
# type first. A loop over `keys()`, as loaders have it, so goes back and forth in a file of mixed precision (float32 scales beside
# half-precision weights): here 99 of 199 steps lead back. Over a network that ends sequential read-ahead; one would expect the
# order of the file. `offset_keys()` gives that.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'safetensors==0.8.0' 'numpy==2.4.6'
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import json
import struct

import numpy
import safetensors
from safetensors.numpy import save_file

model = {}
for layer in range(100):
    model[f"layers.{layer:03}.weight"] = numpy.zeros(1000, dtype=numpy.float16)
    model[f"layers.{layer:03}.scale"] = numpy.zeros(10, dtype=numpy.float32)
save_file(model, "model.safetensors")
with open("model.safetensors", "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
with safetensors.safe_open("model.safetensors", framework="numpy") as opened:
    orders = {"keys": list(opened.keys()), "offset_keys": list(opened.offset_keys())}


def steps_back(names: list[str]) -> int:
    begins = [header[name]["data_offsets"][0] for name in names]
    return sum(after < before for before, after in zip(begins, begins[1:]))


found = {order: steps_back(names) for order, names in orders.items()}
print(f"steps back of {len(model) - 1}: {found}")
assert orders["keys"] == sorted(model)
assert found == {"keys": 99, "offset_keys": 0}
PYTHON
