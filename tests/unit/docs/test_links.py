"""Every relative link of the documentation leads to a file that is there, and to a heading of it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parents[3]
FENCE = re.compile(r"^(`{3,}|~{3,})[^\n]*\n.*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?:(?!\1).)+?\1")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?)\s*#*$", re.MULTILINE)
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:")


def pages() -> list[Path]:
    """The Markdown files that belong to the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    found = [ROOT / name for name in listed.stdout.splitlines()]
    return [page for page in found if page.is_file()]


def links(text: str) -> Iterator[str]:
    """The targets of the links of a page, but for those to other places and those that are only shown as code."""
    for target in LINK.findall(CODE.sub("", FENCE.sub("", text))):
        if not ELSEWHERE.match(target):
            yield target


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings get: lower case, without punctuation, `-` for a blank."""
    found: dict[str, int] = {}
    names = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        count = found.get(name, 0)
        found[name] = count + 1
        names.add(f"{name}-{count}" if count else name)
    return names


def faults(page: Path) -> Iterator[str]:
    """The links of a page that lead nowhere."""
    text = page.read_text(encoding="utf-8")
    for target in links(text):
        path, _, anchor = unquote(target).partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"{page.relative_to(ROOT)}: {target}: there is no such file"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
            yield f"{page.relative_to(ROOT)}: {target}: the page has no such heading"


def test_links_lead_somewhere() -> None:
    found = [fault for page in pages() for fault in faults(page)]
    assert not found, "\n".join(found)


def test_a_dead_link_is_found(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# A `b` c\n[1](#a-b-c) [2](#d) [3](no.md) `[4](no.md)` [5](https://no.where)\n")
    assert list(faults(page)) == [
        "page.md: #d: the page has no such heading",
        "page.md: no.md: there is no such file",
    ]


def test_tables_have_as_many_cells_as_their_head() -> None:
    found = [fault for page in pages() for fault in broken_rows(page)]
    assert not found, "\n".join(found)


def broken_rows(page: Path) -> Iterator[str]:
    """The rows of tables that have more or fewer cells than the head above them."""
    cells = 0
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        here = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        if cells and here and here != cells:
            yield f"{page.relative_to(ROOT)}:{number}: {here - 1} cells below a head of {cells - 1}"
        cells = (cells or here) if here else 0
