"""Checks who uses whom in crates/engine/src and crates/python/src.

1. A module of a layer of the engine uses only layers below it; modules that share a rank do not know each other.
2. Within one folder, no two modules use each other.

A module uses those that its `crate::x` and `super::x` paths name. Where the methods of one type stand in several
modules, it also uses those whose methods it calls on a value of that type: `self`, a clone of it, or a name that is
declared with the type.
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
    *("config", "checksum", "fields", "local_peers", "own_files", "page_cache"),
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
Module = tuple[str, ...]
Type = tuple[Module, str]

# Modules of the engine that use each other all the same, until they are taken apart, as ("writing::copies",
# "writing::tree"): each pair in order. The list may only become shorter.
KNOWN_PAIRS: frozenset[tuple[str, str]] = frozenset()
RANK_OF = {module: rank for rank, modules in enumerate(RANKS) for module in modules}

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# Tests of a module may look at its neighbours: they stand at the end of the file.
_TESTS = re.compile(r"^#\[cfg\(test\)\]\s*mod \w+ \{.*\Z", re.DOTALL | re.MULTILINE)
_PATH = re.compile(r"\b(crate|super(?:::super)*)(?=::)")
_WORD = re.compile(r"\w+")

# rustfmt holds that what begins at the start of a line ends there.
_TYPE = re.compile(r"^(?:pub(?:\([^)]*\))? )?(?:struct|enum|union) (\w+)", re.MULTILINE)
_IMPL = re.compile(r"^impl\b(?P<head>[^{]*)\{(?P<body>.*?)^\}", re.DOTALL | re.MULTILINE)
_IMPLEMENTED = re.compile(r"(?:^|\s)(?:\w+::)*(?P<name>[A-Z]\w*)(?:<[^{]*>)?\s*(?:where\b.*)?$", re.DOTALL)
_METHOD = re.compile(r"^    (?:pub(?:\([^)]*\))? )?(?:const |async |unsafe )*fn (\w+)", re.MULTILINE)
_CALL = re.compile(r"\b(\w+)\s*(?:\.|::)\s*(\w+)(?:::<[^>]*>)?\(")
_CLONE = re.compile(r"let (\w+) = self\.clone\(\)")
_CLONES = re.compile(r"let \((\w+(?:, \w+)*)\) =\s*\((.*?)\);", re.DOTALL)


def module_path(file: Path, root: Path) -> Module:
    """`store/block.rs` is `("store", "block")`; `store/mod.rs` and `store.rs` are `("store",)`."""
    parts = list(file.relative_to(root).with_suffix("").parts)
    return tuple(parts[:-1] if parts[-1] in ("mod", "lib") else parts)


def used_paths(text: str, module: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Module paths that `text`, standing in `module`, names, each from the crate's root."""
    for match in _PATH.finditer(text):
        start = () if match[1] == "crate" else module[: len(module) - match[1].count("super")]
        yield from _branches(text, match.end(), start)


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


def modules_of(root: Path) -> dict[Module, str]:
    """The code of every module below `root`, without comments and without the tests at its end."""
    texts = {module_path(file, root): file.read_text(encoding="utf-8") for file in sorted(root.rglob("*.rs"))}
    return {module: _TESTS.sub("", _COMMENT.sub("", text)) for module, text in texts.items()}


def longest_module(path: tuple[str, ...], modules: Mapping[Module, str]) -> Module:
    """The part of a path that is a module; the rest is an item in it."""
    while path and path not in modules:
        path = path[:-1]
    return path


def defined_types(modules: Mapping[Module, str]) -> dict[str, list[Module]]:
    """Names of types, each with the modules that define one of that name."""
    defined: dict[str, list[Module]] = {}
    for module, text in modules.items():
        for name in _TYPE.findall(text):
            defined.setdefault(name, []).append(module)
    return defined


def type_named(name: str, module: Module, text: str, definers: list[Module]) -> Module | None:
    """The module that defines what `module` calls `name`; `None` when that cannot be told."""
    if module in definers:
        return module
    imported = [path[:-1] for path in used_paths(text, module) if path[-1:] == (name,)]
    if any(start in definers for start in imported):
        return next(start for start in imported if start in definers)
    # Imported from a folder that exports what one of its modules defines.
    below = [definer for definer in definers if any(definer[: len(start)] == start for start in imported)]
    return below[0] if len(below) == 1 else None


def impl_blocks(modules: Mapping[Module, str]) -> Iterator[tuple[Module, Type, str]]:
    """Each `impl` of a type of these modules: where it stands, the type, and what stands in it."""
    defined = defined_types(modules)
    for module, text in modules.items():
        for block in _IMPL.finditer(text):
            named = _IMPLEMENTED.search(block["head"])
            name = named["name"] if named else ""
            definer = type_named(name, module, text, defined.get(name, []))
            if definer is not None:
                yield module, (definer, name), block["body"]


def names_of_self(body: str) -> set[str]:
    """What the methods in `body` call their own object: `self`, `Self` and names of its clones."""
    names = {"self", "Self", *_CLONE.findall(body)}
    for left, right in _CLONES.findall(body):
        pairs = zip(left.split(", "), _values(right), strict=False)
        names.update(name for name, value in pairs if value == "self.clone()")
    return names


def _values(code: str) -> Iterator[str]:
    """What stands between the commas of `code`, but for those inside brackets."""
    depth = 0
    value = ""
    for character in code:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            yield value.strip()
            value = ""
        else:
            value += character
    yield value.strip()


def declared_names(name: str, text: str) -> set[str]:
    """Parameters and fields in `text` that are declared as a `name`, a reference to one, or an `Arc` of one."""
    return set(re.findall(rf"\b(\w+): (?:&(?:'\w+ )?(?:mut )?)?(?:Arc<|Weak<)?{name}\b", text))


def method_uses(modules: Mapping[Module, str]) -> set[tuple[Module, Module]]:
    """Pairs (user, used) of different modules, where the user calls a method of a type that stands in the other."""
    blocks = list(impl_blocks(modules))
    homes: dict[Type, dict[str, Module]] = {}
    for module, type_, body in blocks:
        homes.setdefault(type_, {}).update(dict.fromkeys(_METHOD.findall(body), module))
    found = set()
    for module, type_, body in blocks:
        found |= called_modules(module, names_of_self(body), body, homes[type_])
    for type_, methods in homes.items():
        if len(set(methods.values())) > 1:
            folder = type_[0][:1]
            for module, text in modules.items():
                if module[:1] == folder and type_named(type_[1], module, text, [type_[0]]) == type_[0]:
                    found |= called_modules(module, declared_names(type_[1], text), text, methods)
    return found


def called_modules(
    module: Module, receivers: set[str], code: str, homes: Mapping[str, Module]
) -> set[tuple[Module, Module]]:
    """Pairs of `module` and those where the methods stand that `code` calls on one of `receivers`."""
    calls = (homes.get(method) for name, method in _CALL.findall(code) if name in receivers)
    return {(module, home) for home in calls if home is not None and home != module}


def uses(modules: Mapping[Module, str]) -> set[tuple[Module, Module]]:
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


def layer_faults(pairs: set[tuple[Module, Module]]) -> Iterator[str]:
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


def two_way_pairs(pairs: set[tuple[Module, Module]]) -> Iterator[tuple[str, str]]:
    """Modules of one folder (or of the floor) that use each other."""
    for user, used in sorted(pairs):
        siblings = user and used and user[:-1] == used[:-1]
        if siblings and user < used and (used, user) in pairs:
            yield "::".join(user), "::".join(used)


def two_way_faults(pairs: set[tuple[Module, Module]], known: frozenset[tuple[str, str]]) -> Iterator[str]:
    """Modules that use each other and are not `known` to, and those that are and do not."""
    found = set(two_way_pairs(pairs))
    for one, other in sorted(found - known):
        yield f"{one} and {other} use each other"
    for one, other in sorted(known - found):
        yield f"{one} and {other} do not use each other any more: take them off KNOWN_PAIRS in tools/rust_layers.py"


def faults(root: Path, known: frozenset[tuple[str, str]] = frozenset()) -> list[str]:
    """Everything that is wrong below `root`."""
    pairs = all_uses(root)
    return [*layer_faults(pairs), *two_way_faults(pairs, known)]


def all_uses(root: Path) -> set[tuple[Module, Module]]:
    """Pairs (user, used) of different modules below `root`, by paths and by method calls."""
    modules = modules_of(root)
    return uses(modules) | method_uses(modules)


def main() -> int:
    found = [*faults(SOURCES, KNOWN_PAIRS), *two_way_faults(all_uses(BINDINGS), frozenset())]
    for fault in found:
        sys.stderr.write(f"layers: {fault}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
