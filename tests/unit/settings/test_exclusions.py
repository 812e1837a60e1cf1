from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.settings.exclusions import check_pattern, pattern_fault, patterns_of

ENGINE = Path(__file__).parents[3] / "crates" / "engine" / "src" / "origin" / "exclusion.rs"

GOOD = [
    "*.tmp", "_temporary/", "/top", "a/**/b", "**/x", "!keep", "\\#x", "\\!x", "[a-z]?", "[]]", "[!]a]", "[a-]", "a b",
    "a\\ ", "{a,b}.x", "[{]", "\\[", "\\{", "x[[]", "a\\/", "@eaDir", "grüße-*", "[^x]",
]  # fmt: skip
BAD = {
    "": "names nothing",
    "  ": "names nothing",
    "#x": "names nothing",
    "!": "names nothing",
    "/": "names nothing",
    "!/": "names nothing",
    "a\nb": "end of a line",
    "[a": "not closed",
    "[]": "not closed",
    "[!]": "not closed",
    "[z-a]": "runs backwards: z-a",
    "{a,b": "not closed",
    "a}": "not opened",
    "a\\": "backslash",
    "a\\\\\\": "backslash",
}


@pytest.mark.parametrize("pattern", GOOD)
def test_what_means_something_is_taken(pattern: str) -> None:
    assert pattern_fault(pattern) is None


@pytest.mark.parametrize("pattern", BAD)
def test_what_means_nothing_is_refused_with_the_reason(pattern: str) -> None:
    with pytest.raises(ValueError, match=re.escape(BAD[pattern])):
        check_pattern(pattern)


def test_the_engine_is_tested_with_the_same_patterns() -> None:
    """It decides; a pattern that is refused there only would stop a master that was declared without a word."""
    text = ENGINE.read_text(encoding="utf-8")
    for name, patterns in {"GOOD": GOOD, "BAD": list(BAD)}.items():
        listed = re.search(rf"const {name}: &\[&str\] =\s*&\[(.*?)\];", text, re.DOTALL)
        assert listed
        escaped = re.findall(r'"((?:[^"\\]|\\.)*)"', listed[1])
        found = [each.replace("\\n", "\n").replace("\\\\", "\\") for each in escaped]
        assert found == patterns


def test_a_text_has_a_pattern_in_each_line_that_is_no_comment() -> None:
    assert patterns_of("# of the build\n*.tmp\n\n  \r\n/a b/\n") == ("*.tmp", "/a b/")
