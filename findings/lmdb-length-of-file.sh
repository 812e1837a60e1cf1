#!/usr/bin/env bash
# LMDB 3.0.0 (Python): a database that is written with `writemap=True` is a file as long as its `map_size`: one record in a map
# of 1 TiB is a file of 1 TiB, of which some KiB are on disk; without that option it is as long as its pages. Whatever
# copies by length (an upload, a quota, a cache that reckons by size) takes or moves the whole. `copy(compact=True)` gives a
# file as short as its content. People choose a large map since it costs nothing locally.
# Needs Python with venv, and a file system with sparse files. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'lmdb==3.0.0'
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import os

import lmdb


def written(folder: str, **options: bool) -> tuple[int, int]:
    """Length and room on disk of a database with one record."""
    with lmdb.open(folder, map_size=1 << 40, **options) as environment:
        with environment.begin(write=True) as transaction:
            transaction.put(b"key", b"value")
        os.mkdir(f"{folder}-copy")
        environment.copy(f"{folder}-copy", compact=True)
    found = os.stat(f"{folder}/data.mdb")
    return found.st_size, found.st_blocks * 512


plain, mapped = written("plain"), written("mapped", writemap=True)
copy = os.path.getsize("mapped-copy/data.mdb")
print(f"length and room on disk: plain {plain}, with writemap {mapped}; its compact copy: {copy}")
assert mapped[0] == 1 << 40
assert max(plain[0], mapped[1], copy) < 1 << 20
PYTHON
