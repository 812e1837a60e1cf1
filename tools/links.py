"""Checks the links of the pages: each file is there, and so is each heading that a link names. Asks no network.

Headings get the names that GitHub gives them, which `make site` gives them as well.
"""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.parse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parent.parent
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
# What GitHub leaves out of a heading's name: all but letters, digits, blanks, hyphens and underscores.
LEFT_OUT = re.compile(r"[^\w\- ]")
HTML_NAME = re.compile(r"""<[^>]*\b(?:id|name)=["']([^"']+)""")


@dataclass
class Page:
    """What a page leads to, by line, and the names of its headings."""

    links: list[tuple[int, str]] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)


def faults(root: Path, those: Iterable[Path]) -> Iterator[str]:
    """One line for each link of these pages that leads nowhere, or out of `root`."""
    for path in those:
        for line, target in read(path).links:
            if fault := _fault(root, path, target):
                yield f"{path.relative_to(root)}:{line}: {target}: {fault}"


def pages(root: Path) -> list[Path]:
    """The Markdown files that belong to the repository, those as well that are not added to it yet."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return [path for name in sorted(listed.stdout.splitlines()) if (path := root / name).is_file()]


@cache
def read(path: Path) -> Page:
    """The links and headings of a page."""
    page, seen = Page(), dict[str, int]()
    tokens = MarkdownIt("commonmark").enable("table").parse(path.read_text())
    line = 1
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        line = token.map[0] + 1 if token.map else line
        if token.type == "heading_open" and following:
            page.anchors.add(_numbered(slug(_text(following)), seen))
        page.links += [(line, target) for target in _targets(token)]
        page.anchors.update(name for html in _html(token) for name in HTML_NAME.findall(html))
    return page


def slug(heading: str) -> str:
    """The name that GitHub gives a heading."""
    return LEFT_OUT.sub("", heading.strip().lower()).replace(" ", "-")


def _numbered(name: str, seen: dict[str, int]) -> str:
    """Several headings of one text are told apart by numbers."""
    count = seen.get(name, 0)
    seen[name] = count + 1
    return f"{name}-{count}" if count else name


def _fault(root: Path, page: Path, target: str) -> str | None:
    if SCHEME.match(target) or target.startswith("//"):
        return None
    address, _, anchor = target.partition("#")
    led_to = page if not address else (page.parent / urllib.parse.unquote(address)).resolve()
    if not led_to.is_relative_to(root):
        return "leads out of the repository"
    if not led_to.exists():
        return "there is no such file"
    if anchor and led_to.suffix == ".md" and urllib.parse.unquote(anchor) not in read(led_to).anchors:
        return f"{led_to.relative_to(root)} has no such heading"
    return None


def _targets(token: Token) -> Iterator[str]:
    for child in token.children or ():
        if child.type == "link_open":
            yield str(child.attrs["href"])
        elif child.type == "image":
            yield str(child.attrs["src"])


def _html(token: Token) -> Iterator[str]:
    if token.type == "html_block":
        yield token.content
    yield from (child.content for child in token.children or () if child.type == "html_inline")


def _text(inline: Token) -> str:
    """A heading as it is read: without emphasis, with the words of links and code."""
    return "".join(child.content for child in inline.children or () if child.type in {"text", "code_inline"})


def main() -> int:
    """Says what leads nowhere; 1 if anything does."""
    found = list(faults(ROOT, pages(ROOT)))
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
