#!/usr/bin/env bash
# FAISS 1.15.1: `read_index(path, IO_FLAG_MMAP)` maps the lists of an IVF index, and reads all of a flat one into memory without a
# word: 98 MiB of the process's own for a file of 98 MiB, where IO_FLAG_MMAP_IFC takes none. One would expect a map or an error.
# Ten workers on a node that share an index by the page cache have ten copies, and the whole file is fetched before the
# first query.
# Needs Python with venv, and Linux for /proc. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'faiss-cpu==1.15.1' 'numpy==2.4.6'
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import os

import faiss
import numpy

vectors = numpy.random.default_rng(0).random((200_000, 128), dtype=numpy.float32)
flat = faiss.IndexFlatL2(128)
flat.add(vectors)
faiss.write_index(flat, "flat")
lists = faiss.IndexIVFFlat(faiss.IndexFlatL2(128), 128, 16)
lists.train(vectors[:5000])
lists.add(vectors)
faiss.write_index(lists, "ivf")
del flat, lists, vectors


def read_bytes() -> int:
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])


def share_read(name: str, flag: int) -> float:
    """The share of a file that is read when it is opened, not mapped."""
    before = read_bytes()
    index = faiss.read_index(name, flag)
    assert index.ntotal == 200_000
    return round((read_bytes() - before) / os.path.getsize(name), 1)


found = {
    "ivf, MMAP": share_read("ivf", faiss.IO_FLAG_MMAP),
    "flat, MMAP": share_read("flat", faiss.IO_FLAG_MMAP),
    "flat, MMAP_IFC": share_read("flat", faiss.IO_FLAG_MMAP_IFC),
}
print(f"share of the file that opening it reads: {found}")
assert found == {"ivf, MMAP": 0.0, "flat, MMAP": 1.0, "flat, MMAP_IFC": 0.0}
PYTHON
