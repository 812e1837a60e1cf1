"""Each sample of docs/libraries.md, run as it stands with the library that it is about."""

from __future__ import annotations

from pathlib import Path

import pytest
from libraries_page import CHECKS, SAMPLES, run_sample

# What packages warn of themselves is theirs.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize("title", SAMPLES)
def test_a_sample_finds_what_was_written(title: str, places: dict[str, Path]) -> None:
    found = run_sample(title, places)
    assert CHECKS[title](found), found
