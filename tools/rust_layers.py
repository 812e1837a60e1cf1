"""Checks who uses whom in crates/engine/src and crates/python/src, by the `crate::x` and `super::x` paths of the code.

1. A module of a layer of the engine uses only layers below it; modules that share a rank do not know each other.
2. Within one folder, no two modules use each other.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

CRATES = Path(__file__).parent.parent / "crates"
SOURCES = CRATES / "engine" / "src"
BINDINGS = CRATES / "python" / "src"

FLOOR = (
    *("error", "ids", "secret", "sync", "budget", "metrics"),
    *("config", "checksum", "fields", "own_files", "page_cache"),
)
RANKS: tuple[tuple[str, ...], ...] = (
    FLOOR,
    ("origin", "snapshot", "store", "staging", "ring", "wire"),
    ("cluster", "lease", "copy"),
    ("transfer",),
    ("vfs",),
    ("writing",),
    ("fuse", "serve", "worker"),
    ("engine",),
)
# The one thing that a neighbour may know: what a snapshot is made of is what an origin lists.
SHARED = {("snapshot", ("origin", name)) for name in ("LeftOut", "ListedObject", "ObjectKind", "Permissions")}
RANK_OF = {module: rank for rank, modules in enumerate(RANKS) for module in modules}

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# Tests of a module may look at its neighbours: they stand at the end of the file.
_TESTS = re.compile(r"^#\[cfg\(test\)\]\s*mod \w+ \{.*\Z", re.DOTALL | re.MULTILINE)
_PATH = re.compile(r"\b(crate|super(?:::super)*)(?=::)")
_WORD = re.compile(r"\w+")


def module_path(file: Path, root: Path) -> tuple[str, ...]:
    """`store/block.rs` is `("store", "block")`; `store/mod.rs` and `store.rs` are `("store",)`."""
    parts = list(file.relative_to(root).with_suffix("").parts)
    return tuple(parts[:-1] if parts[-1] in ("mod", "lib") else parts)


def used_paths(text: str, module: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Module paths that `text`, standing in `module`, names, each from the crate's root."""
    code = _TESTS.sub("", _COMMENT.sub("", text))
    for match in _PATH.finditer(code):
        start = () if match[1] == "crate" else module[: len(module) - match[1].count("super")]
        yield from _branches(code, match.end(), start)


def _branches(code: str, position: int, start: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths of `::a::b`, `::a::{b, c::d}` and the like at `position`."""
    path = start
    while code.startswith("::", position):
        position += 2
        name = _WORD.match(code, position)
        if name:
            path = (*path, name[0])
            position = name.end()
        elif code.startswith("{", position):
            for item in _items(code, position):
                yield from _branches(f"::{item}", 0, path)
            return
        else:
            break
    yield path


def _items(code: str, opening: int) -> Iterator[str]:
    """What stands between the commas of the group that opens at `opening`."""
    depth = 0
    item = ""
    for character in code[opening:]:
        depth += (character == "{") - (character == "}")
        if depth == 0 or (character == "," and depth == 1):
            yield item.removeprefix("{").strip()
            item = ""
            if depth == 0:
                return
        else:
            item += character


def modules_of(root: Path) -> dict[tuple[str, ...], str]:
    """The source text of every module below `root`."""
    return {module_path(file, root): file.read_text(encoding="utf-8") for file in sorted(root.rglob("*.rs"))}


def longest_module(path: tuple[str, ...], modules: Mapping[tuple[str, ...], str]) -> tuple[str, ...]:
    """The part of a path that is a module; the rest is an item in it."""
    while path and path not in modules:
        path = path[:-1]
    return path


def uses(modules: Mapping[tuple[str, ...], str]) -> set[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Pairs (user, used) of different modules. `super` inside an inline test module counts as the module itself."""
    found = set()
    for module, text in modules.items():
        for path in used_paths(text, module):
            if module[:1] and (module[0], path[:2]) in SHARED:
                continue
            used = longest_module(path, modules)
            if used and used != module:
                found.add((module, used))
    return found


def layer_faults(pairs: set[tuple[tuple[str, ...], tuple[str, ...]]]) -> Iterator[str]:
    """Uses that go up, or sideways between modules of one rank above the floor."""
    for user, used in sorted(pairs):
        if not user or user[0] == used[0]:
            continue
        above, below = RANK_OF.get(user[0]), RANK_OF.get(used[0])
        if above is None or below is None:
            yield f"{'::'.join(user)} uses {'::'.join(used)}: one has no rank in tools/rust_layers.py"
        elif above < below:
            yield f"{'::'.join(user)} uses {'::'.join(used)}, which stands above it"
        elif above == below and above > 0:
            yield f"{'::'.join(user)} uses {'::'.join(used)}, its neighbour"


def two_way_faults(pairs: set[tuple[tuple[str, ...], tuple[str, ...]]]) -> Iterator[str]:
    """Modules of one folder (or of the floor) that use each other."""
    for user, used in sorted(pairs):
        siblings = user and used and user[:-1] == used[:-1]
        if siblings and user < used and (used, user) in pairs:
            yield f"{'::'.join(user)} and {'::'.join(used)} use each other"


def faults(root: Path) -> list[str]:
    """Everything that is wrong below `root`."""
    pairs = uses(modules_of(root))
    return [*layer_faults(pairs), *two_way_faults(pairs)]


def main() -> int:
    found = [*faults(SOURCES), *two_way_faults(uses(modules_of(BINDINGS)))]
    for fault in found:
        sys.stderr.write(f"layers: {fault}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
