#!/usr/bin/env bash
# fsspec 2026.9.0: `put(folder, target, recursive=True)` copies the folder's content to `target` if that is not there yet, and to
# `target/folder` if it is. Object storage has no folders to tell, so that the same call, made again after an interruption, does not
# overwrite: the data set is there twice, and whoever reads all below `target` trains on each file twice. A slash behind the source
# (`folder/`) means its content both times.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'fsspec==2026.9.0'
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import pathlib

import fsspec

pathlib.Path("train").mkdir()
pathlib.Path("train", "part-0").write_bytes(b"samples")
storage = fsspec.filesystem("memory")


def uploaded(source: str, target: str) -> list[list[str]]:
    """The files of the target after the first call and after the same once more."""
    seen = []
    for _ in range(2):
        storage.put(source, target, recursive=True)
        seen.append(storage.find(target))
    return seen


plain, slashed = uploaded("train", "/plain"), uploaded("train/", "/slashed/")
print(f"put of train: {plain[0]}, once more: {plain[1]}; put of train/: {slashed}")
assert plain == [["/plain/part-0"], ["/plain/part-0", "/plain/train/part-0"]]
assert slashed == [["/slashed/part-0"], ["/slashed/part-0"]]
PYTHON
