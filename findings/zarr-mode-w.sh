#!/usr/bin/env bash
# zarr 3.1.6: `open_group(folder, mode="w")` removes all that lies in the folder, also files and folders that are none of Zarr's,
# before it writes one `zarr.json`. One would expect what is Zarr's to be replaced, as other formats replace the one file that they
# are given. A run that writes its arrays into the folder of the run loses its checkpoints and logs. `mode="a"` leaves them.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'zarr==3.1.6' 'numpy==2.4.6'
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import pathlib

import zarr

folder = pathlib.Path("run")


def left(mode: str) -> list[str]:
    """The files of the folder after a group was opened there."""
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    (folder / "checkpoints" / "last.bin").write_bytes(b"weights")
    (folder / "notes.txt").write_text("notes")
    zarr.open_group(str(folder), mode=mode)
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


adding, writing = left("a"), left("w")
print(f'after mode="a": {adding}; after mode="w": {writing}')
assert adding == ["checkpoints/last.bin", "notes.txt", "zarr.json"]
assert writing == ["zarr.json"]
PYTHON
