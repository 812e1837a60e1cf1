"""Check the English of docstrings, error texts, hints and help, by the syntax tree, and of the modules of the crates.

1. A text begins with a noun phrase or a verb, not with a clause that stands for a noun: "Number of workers",
   and not "How many workers there are".
2. No sentence begins with What, Who, Whoever, Whether or "That which". A question that ends in "?" may.
3. A word with a sense of its own (`PRIVATE`) is used as a noun only if the glossary has it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "headrace"
CRATES = ROOT / "crates"
GLOSSARY = ROOT / "docs" / "glossary.md"

# Ordinary words that had become names of things. Each is at most a noun of the glossary, and free as a verb or adverb.
PRIVATE = (
    *("outlook", "shelf", "lineage", "standstill", "blame", "lifeline"),
    *("apart", "errand", "relief", "doubt", "patience", "wish"),
)
GENERATED = ("_pb2.py", "_pb2_grpc.py")
HELP = {"help", "short_help", "description", "hint", "epilog"}

_CLAUSE = re.compile(r"(what|who|whom|whose|whoever|whether|that which|those (that|who|which))\b")
# At the start of a later sentence these lead an adverbial clause ("Where a disk is full, …", "Whatever bytes come, …");
# and "How a pass is ordered" or "Why a pod was lost" is a good title.
_FIRST_CLAUSE = re.compile(r"(which|whichever|whatever|where|when|until|how (many|much|long|often))\b")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')`]*\s+(?=[\"'(]*[A-Z`])|\n\s*(?:[-*]|\d+\.)\s+|\n\s*\n")
# "report.json: what answers is no server": the subject of an error stands before the colon.
_SUBJECT_END = re.compile(r": ")
_RUST_HEAD = re.compile(r"(?://!.*\n)+")
_OPENING = "\"'(*_"
_CODE = re.compile(r"`[^`]*`")
_DETERMINER = r"\b(?:a|an|the|this|its|their|each|every|of|one|two|all|these)\s+(?:[a-z]+\s+)?"


class Text(NamedTuple):
    """A text that somebody reads: a docstring, an error, a hint, a line of help."""

    line: int
    kind: str
    words: str


def texts(tree: ast.Module) -> Iterator[Text]:
    """The texts of a module: docstrings of what is public, and every error, hint and help."""
    yield from _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg in HELP and (words := _words(keyword.value)):
                    yield Text(keyword.value.lineno, keyword.arg, words)
            if _name(node.func) == "flag" and len(node.args) > 2 and (words := _words(node.args[2])):
                yield Text(node.args[2].lineno, "help", words)
            if node.args and _makes_error(node.func) and (words := _words(node.args[0])):
                yield Text(node.args[0].lineno, "error", words)


def rust_texts(source: str) -> Iterator[Text]:
    """The text of a Rust module: the `//!` lines at the head of its file."""
    if head := _RUST_HEAD.match(source):
        yield Text(1, "docstring", re.sub(r"^//! ?", "", head[0], flags=re.MULTILINE))


def _docstrings(node: ast.Module | ast.ClassDef) -> Iterator[Text]:
    yield from _docstring(node)
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from _docstrings(child)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not child.name.startswith("_"):
            yield from _docstring(child)


def _docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Text]:
    if words := ast.get_docstring(node):
        yield Text(node.body[0].lineno, "docstring", words)


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else ""


def _makes_error(function: ast.expr) -> bool:
    """True if a call of `function` is `SomeError("…")` or `SomeError.of("…")`."""
    if isinstance(function, ast.Attribute):
        return function.attr.endswith("Error") or (function.attr == "of" and _makes_error(function.value))
    return _name(function).endswith("Error")


def _words(node: ast.expr) -> str | None:
    """The text of a literal, with `{}` for what is only known when it runs; None for anything else."""
    match node:
        case ast.Constant(value=str(words)):
            return words
        case ast.JoinedStr(values=parts):
            return "".join(_words(part) or "{}" for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return (_words(left) or "{}") + (_words(right) or "{}")
    return None


def faults(text: Text, glossary: frozenset[str] = frozenset()) -> Iterator[str]:
    """The rules that `text` breaks, each in a few words."""
    for position, sentence in enumerate(sentences(text)):
        opening = sentence.lstrip(_OPENING)
        clause = _CLAUSE.match(opening[:1].lower() + opening[1:])
        if not clause and position == 0:
            clause = _FIRST_CLAUSE.match(opening[:1].lower() + opening[1:])
        if clause and not sentence.rstrip("\"')").endswith("?"):
            yield f'begin with a noun phrase or a verb, not with "{opening[: clause.end()]}": {_short(sentence)}'
    prose = _CODE.sub("``", text.words)
    for word in PRIVATE:
        noun = _DETERMINER + (word.removesuffix("f") + "(?:f|ves|s|es)?") + r"\b"
        if word not in glossary and (found := re.search(noun, prose, re.IGNORECASE)):
            yield f'use the field\'s word, or put "{word}" into docs/glossary.md: … {_short(found[0])} …'


def sentences(text: Text) -> list[str]:
    """The sentences of `text`, and of an error also what follows its subject."""
    found = [part.strip() for part in _SENTENCE_END.split(text.words) if part and part.strip()]
    if text.kind == "error":
        found += [part for sentence in list(found) for part in _SUBJECT_END.split(sentence)[1:]]
    return found


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= 70 else line[:69] + "…"


def glossary_words(page: str) -> frozenset[str]:
    """The words of the first column of the glossary's tables."""
    cells = re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE)
    return frozenset(word for cell in cells for word in re.findall(r"[a-z]+", cell.lower()))


def sources() -> Iterator[tuple[Path, Iterator[Text]]]:
    """The files to check, in order, with their texts."""
    for file in sorted(SOURCES.rglob("*.py")):
        if not file.name.endswith(GENERATED):
            yield file, texts(ast.parse(file.read_text()))
    for file in sorted(CRATES.glob("*/src/**/*.rs")):
        yield file, rust_texts(file.read_text())


def main() -> int:
    """Prints every fault with its place; 1 if there is any."""
    glossary = glossary_words(GLOSSARY.read_text())
    found = [
        f"{file.relative_to(ROOT)}:{text.line}: {text.kind}: {fault}"
        for file, its_texts in sources()
        for text in its_texts
        for fault in faults(text, glossary)
    ]
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
