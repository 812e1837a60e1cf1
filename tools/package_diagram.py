"""Draws for ARCHITECTURE.md which package imports which, from the imports themselves.

An arrow that follows from others is left out: what a package may use, it may use through those below it as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

SOURCES = Path(__file__).parent.parent / "src"
PAGE = Path("ARCHITECTURE.md")
# By the word in the page's markers: the package whose parts are drawn, and parts that are left out.
DIAGRAMS = {
    "packages": ("headrace", frozenset({"testing"})),
    "rooms": ("headrace.local", frozenset()),
    "roles": ("headrace.roles", frozenset()),
}

Arrows = Mapping[str, frozenset[str]]


def drawn(text: str, sources: Path = SOURCES) -> str:
    """The page with its diagrams as the code is now. Raises `ValueError` when the page has no place for one."""
    for word, (package, without) in DIAGRAMS.items():
        place = re.compile(rf"(<!-- {word}: [^\n]*-->\n)(?:.*?)(<!-- end of {word} -->)", re.DOTALL)
        picture = diagram(reduced(arrows(sources, package, without)))
        text, count = place.subn(lambda found, put=picture: f"{found[1]}{put}{found[2]}", text)
        if count != 1:
            raise ValueError(f"{PAGE} has {count} places for the diagram of {word}, not one")
    return text


def arrows(sources: Path, package: str, without: frozenset[str] = frozenset()) -> Arrows:
    """For each part of a package those other parts that it imports, wherever in a file it does."""
    root = sources.joinpath(*package.split("."))
    files = {
        file: part
        for file in sorted(root.rglob("*.py"))
        if (part := _part(file.relative_to(root))) not in without
    }
    parts = {part for part in files.values() if part != "__init__"}
    found: dict[str, set[str]] = {part: set() for part in parts}
    for file, part in files.items():
        if part in parts:
            found[part] |= {each for each in _imported(file, package) if each in parts and each != part}
    return {part: frozenset(others) for part, others in found.items()}


def reduced(given: Arrows) -> Arrows:
    """Without the arrows that follow from others. Nothing may import itself, through however many."""
    below = {part: _below(given, part) for part in given}
    for part, others in below.items():
        if part in others:
            raise ValueError(f"{part} imports itself through others")
    return {
        part: frozenset(each for each in others if not any(each in below[other] for other in others - {each}))
        for part, others in given.items()
    }


def diagram(given: Arrows) -> str:
    """The arrows as a picture that a Markdown page shows."""
    lines = [f"    {part} --> {other}" for part in sorted(given) for other in sorted(given[part])]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"]) + "\n"


def _part(path: Path) -> str:
    return path.parts[0].removesuffix(".py")


def _imported(file: Path, package: str) -> Iterator[str]:
    """The parts of a package that a file names in its imports; one with dots in front stays within its own part."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        for name in _names(node):
            if name.startswith(f"{package}."):
                yield name.removeprefix(f"{package}.").partition(".")[0]


def _names(node: ast.AST) -> Iterable[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [f"{node.module}.{each.name}" for each in node.names]
    return []


def _below(given: Arrows, part: str) -> set[str]:
    """All that a part imports, through however many others."""
    found: set[str] = set()
    waiting = list(given[part])
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += given[each]
    return found
