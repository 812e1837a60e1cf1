#!/usr/bin/env bash
# WebDataset 1.0.2: the same samples, written once more, are another file: each member of the archive bears the time at which it
# was written, so that digest and ETag of every shard change although no sample did. What goes by those (`rclone sync
# --checksum`, caches, deduplicating storage) sends, stores and fetches all again. `TarWriter(…, mtime=0)` gives equal files.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'webdataset==1.0.2'
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import hashlib
import pathlib
import time

import webdataset


def digest(**options: float) -> str:
    with webdataset.TarWriter("shard.tar", **options) as archive:
        archive.write({"__key__": "0", "cls": "1", "txt": "a caption"})
    return hashlib.md5(pathlib.Path("shard.tar").read_bytes()).hexdigest()


first, first_fixed = digest(), digest(mtime=0)
time.sleep(1.1)
second, second_fixed = digest(), digest(mtime=0)
print(f"the same sample: {first}, {second}; with mtime=0: {first_fixed}, {second_fixed}")
assert first != second
assert first_fixed == second_fixed
PYTHON
