"""What docs/writing-beside-data.md says of libraries that write beside what they read, seen on a read-only mount."""

from __future__ import annotations

from pathlib import Path

import pytest
from beside_data import CASES, Case

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_says_so_and_the_remedy_reads(case: Case, places: dict[str, Path], tmp_path: Path) -> None:
    mount = places["/mnt/imagenet"]
    with pytest.raises(Exception, match=case.words):
        case.refused(mount, tmp_path)
    assert case.remedy(mount, tmp_path) == case.expected
