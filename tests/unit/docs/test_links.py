"""Every relative link of the documentation leads to a file that is there, and to a heading of it: `tools/links.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tools.links import faults, pages

ROOT = Path(__file__).parents[3]


def test_links_lead_somewhere() -> None:
    found = list(faults(ROOT, pages(ROOT)))
    assert not found, "\n".join(found)


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b` *c*: [d](other.md)\n"
        "[1](#a-b-c-d) [2](#d) [3](no.md) `[4](no.md)` [5](https://no.where)\n"
        "\n"
        "| x |\n|---|\n| [6](other.md#two-1) [7](other.md#two-2) ![8](no.png) [9][away] |\n"
        "\n"
        "    [10](no.md)\n"
        "\n"
        "[away]: ../away.md\n"
    )
    (tmp_path / "other.md").write_text("# Two\n\n```\n# Two\n```\n\n## Two\n")
    (tmp_path.parent / "away.md").write_text("# Away\n")
    assert list(faults(tmp_path, [page])) == [
        "page.md:2: #d: page.md has no such heading",
        "page.md:2: no.md: there is no such file",
        "page.md:6: other.md#two-2: other.md has no such heading",
        "page.md:6: no.png: there is no such file",
        "page.md:6: ../away.md: leads out of the repository",
    ]


def test_tables_have_as_many_cells_as_their_head() -> None:
    found = [fault for page in pages(ROOT) for fault in broken_rows(page)]
    assert not found, "\n".join(found)


def broken_rows(page: Path) -> Iterator[str]:
    """The rows of tables that have more or fewer cells than the head above them."""
    cells = 0
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        here = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        if cells and here and here != cells:
            yield f"{page.relative_to(ROOT)}:{number}: {here - 1} cells below a head of {cells - 1}"
        cells = (cells or here) if here else 0
