#!/usr/bin/env bash
# safetensors 0.8.0: what `save_file` writes can be read by its owner alone (0600), whatever the umask, since it is a temporary file
# that was given its name; `numpy.save` leaves 0644 under the same umask, as one would expect. A checkpoint that a job writes
# as root to a shared disk, or to a folder that a cache serves as another user, is refused to the next job, while the
# `config.json` beside it is not. A file that is written over loses its mode as well.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'safetensors==0.8.0' 'numpy==2.4.6'
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import os
import stat

import numpy
from safetensors.numpy import save_file


def mode(name: str) -> str:
    return oct(stat.S_IMODE(os.stat(name).st_mode))


os.umask(0o022)
weights = numpy.zeros(4)
numpy.save("plain.npy", weights)
save_file({"w": weights}, "model.safetensors")
new = mode("model.safetensors")
os.chmod("model.safetensors", 0o644)
save_file({"w": weights}, "model.safetensors")
again = mode("model.safetensors")
print(f"umask 022: numpy.save {mode('plain.npy')}, save_file {new}, over a file of 0644 {again}")
assert mode("plain.npy") == "0o644"
assert new == again == "0o600"
PYTHON
