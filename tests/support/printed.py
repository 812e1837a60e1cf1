"""Tables as kubectl and headrace print them."""

from __future__ import annotations

import re

SIZE = r"\d+\.\d\d([KMGTP]i)?B"
AGE = r"\d+[smhdy](\d+[smhd])?"


def rows_of(table: str) -> list[dict[str, str]]:
    """The rows of a table: what stands under each title."""
    head, *lines = table.rstrip("\n").splitlines()
    titles = list(re.finditer(r"\S+( \S+)*", head))
    ends = [*(title.start() for title in titles[1:]), None]
    return [
        {title[0]: line[title.start() : end].strip() for title, end in zip(titles, ends, strict=True)}
        for line in lines
    ]


def check(rows: list[dict[str, str]], *expected: dict[str, str]) -> None:
    """Every column under its title, in its order, in its form."""
    assert [list(row) for row in rows] == [list(each) for each in expected]
    for row, each in zip(rows, expected, strict=True):
        wrong = {title: row[title] for title, form in each.items() if not re.fullmatch(form, row[title])}
        assert not wrong, each
