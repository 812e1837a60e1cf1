#!/usr/bin/env bash
# fsspec 2026.9.0: two archives hold a file of the same name, and `simplecache::zip://labels.csv::file://…` of both, with one
# cache folder, reads the first archive's file twice, without a word; `filecache` likewise. The copy in the cache folder is named
# by a digest of the path within the archive alone. One would expect the whole chain to count, or an error. Who trains on shards
# of the same inner names gets the first one again and again; a `cache_storage` for each archive keeps them apart.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'fsspec==2026.9.0'
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import zipfile

import fsspec

for name in ("one", "two"):
    with zipfile.ZipFile(f"{name}.zip", "w") as archive:
        archive.writestr("labels.csv", f"labels of {name}")


def read(address: str, **options: object) -> str:
    with fsspec.open(address, "rt", **options) as file:
        return file.read()


for cache in ("simplecache", "filecache"):
    options = {cache: {"cache_storage": f"cache of {cache}"}}
    plain = [read(f"zip://labels.csv::file://{name}.zip") for name in ("one", "two")]
    cached = [read(f"{cache}::zip://labels.csv::file://{name}.zip", **options) for name in ("one", "two")]
    print(f"{cache}: without it {plain}, with it {cached}")
    assert plain == ["labels of one", "labels of two"]
    assert cached == ["labels of one", "labels of one"]
PYTHON
