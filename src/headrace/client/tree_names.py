"""Names of a dataset's tree: paths as text, walks, and patterns. Reads no bytes of files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from fsspec.utils import glob_translate

from headrace.engine.handles import Engine, TreeEntry

_PAGE = 10_000
_MAGIC = re.compile(r"[*?\[]")


def encode(path: str) -> bytes:
    """The engine's form of a path: bytes below the root, no slashes at the ends, no empty or `.` parts."""
    return b"/".join(part for part in os.fsencode(path).split(b"/") if part not in (b"", b"."))


def decode(path: bytes) -> str:
    """The text of a path; bytes that are not UTF-8 become surrogates, as everywhere in Python."""
    return os.fsdecode(path)


def children(engine: Engine, folder: bytes) -> Iterator[TreeEntry]:
    """The entries of one folder, in name order."""
    after: bytes | None = None
    while True:
        page = engine.list(folder, after=after, limit=_PAGE)
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1].path.rpartition(b"/")[2]


def walk(engine: Engine, folder: bytes) -> Iterator[TreeEntry]:
    """All files below a folder, depth first, in name order."""
    for entry in children(engine, folder):
        if entry.kind == "directory":
            yield from walk(engine, entry.path)
        else:
            yield entry


def matching(engine: Engine, root: bytes, pattern: str) -> Iterator[TreeEntry]:
    """The files below `root` whose path from there matches `pattern`: `*` within a name, `**` across folders."""
    folder = encode("/".join(_literal_parts(pattern)))
    start = b"/".join(part for part in (root, folder) if part)
    matches = re.compile(glob_translate(pattern.strip("/")), re.DOTALL).match
    skipped = len(root) + 1 if root else 0
    for entry in walk(engine, start):
        if matches(decode(entry.path[skipped:])):
            yield entry


def _literal_parts(pattern: str) -> Iterator[str]:
    """The leading folders of a pattern that hold no wild card: the walk need not start above them."""
    for part in pattern.strip("/").split("/")[:-1]:
        if _MAGIC.search(part):
            return
        yield part
