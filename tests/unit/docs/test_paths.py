"""Files and tests that pages name are there: nobody is sent to a place of yesterday."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# A path in backticks: with a folder in front or an ending behind, and nothing that stands for something else.
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|rs))`")
# The name of a test in backticks; its end may be left out.
TEST = re.compile(r"`([a-z0-9]+(?:_[a-z0-9]+){4,}…?)`")
PLACES = (
    ROOT / "src",
    ROOT / "crates/engine/src",
    ROOT / "crates/engine/tests",
    ROOT / "crates/python/src",
    ROOT / "tools",
    ROOT / "tests",
    ROOT / "docs",
)
QUESTIONS = re.compile(r"^Where is …\?\n\n(.*?)\n\n", re.MULTILINE | re.DOTALL)


def is_there(path: str) -> bool:
    """At the path itself, or below one of the places: pages leave out what stands in front where that is clear."""
    return (ROOT / path).exists() or any(next(place.rglob(path), None) for place in PLACES)


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/glossary.md", "docs/safety.md"])
def test_paths_that_a_page_names_are_there(page: str) -> None:
    named = PATH.findall((ROOT / page).read_text(encoding="utf-8"))
    assert named
    assert [path for path in named if not is_there(path)] == []


def test_tests_that_the_page_on_safety_leans_on_are_there() -> None:
    page = (ROOT / "docs/safety.md").read_text(encoding="utf-8")
    named = TEST.findall(page)
    assert len(named) >= 5
    sources = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "crates/engine").rglob("*.rs")]
    tests = [
        name
        for source in sources
        for name in re.findall(
            r"^\s*(?:def|fn|async fn) (\w+)\(", source.read_text(encoding="utf-8"), re.MULTILINE
        )
    ]
    missing = [
        name
        for name in named
        if not any(
            (test.startswith(name[:-1]) if name.endswith("…") else test in (name, f"test_{name}"))
            for test in tests
        )
    ]
    assert missing == []


def test_ten_questions_are_answered_by_paths_alone() -> None:
    found = QUESTIONS.search((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert found is not None
    rows = [row.strip("|").split("|") for row in found[1].splitlines()[2:]]
    assert len(rows) >= 10
    for question, answer in rows:
        assert question.strip().endswith("?")
        paths = PATH.findall(answer)
        assert paths
        assert [path for path in paths if not (ROOT / path).exists()] == []
