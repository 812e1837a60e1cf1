#!/usr/bin/env bash
# obstore 0.12.1 (Apache's object_store) and OpenDAL 0.47.12: the same prefix `shards/part` lists nothing by the one, and all of
# `shards/part-0`, `shards/part-1`, `shards/parts/x` by the other, over the same keys: to obstore a prefix is whole segments of a
# path, to OpenDAL, as to S3, the beginning of a key. Nothing is said when nothing is found. A job that chooses its shards
# by a prefix, and changes the library, gets an empty data set.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'obstore==0.12.1' 'opendal==0.47.12'
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import pathlib

import obstore
import opendal
from obstore.store import LocalStore

KEYS = ["shards/part-0", "shards/part-1", "shards/parts/x"]
root = pathlib.Path("storage").absolute()
for key in KEYS:
    (root / key).parent.mkdir(parents=True, exist_ok=True)
    (root / key).write_bytes(b"samples")
store, operator = LocalStore(root), opendal.Operator("fs", root=str(root))


def by_obstore(prefix: str) -> list[str]:
    return sorted(each["path"] for batch in obstore.list(store, prefix) for each in batch)


def by_opendal(prefix: str) -> list[str]:
    return sorted(each.path for each in operator.scan(prefix) if not each.path.endswith("/"))


found = {prefix: (by_obstore(prefix), by_opendal(prefix)) for prefix in ("shards/", "shards/part")}
print(f"by prefix, obstore and OpenDAL: {found}")
assert found == {"shards/": (KEYS, KEYS), "shards/part": ([], KEYS)}
PYTHON
