"""What Python reads of a snapshot file by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine.cluster import read_snapshot_head
from headrace.errors import CorruptDataError

SAMPLES = Path(__file__).parents[3] / "crates" / "engine" / "tests" / "data"


@pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.glob("snapshot-*.bin")))
def test_the_header_of_each_format_is_read(sample: str) -> None:
    head = read_snapshot_head(SAMPLES / sample)
    assert (head.version, head.files, head.directories) == (2, 22, 4)


def test_a_file_that_is_cut_off_or_of_a_later_format_is_refused(tmp_path: Path) -> None:
    whole = (SAMPLES / "snapshot-2.bin").read_bytes()
    for content in (whole[:-1], whole[:8] + b"\x04" + whole[9:]):
        (tmp_path / "list").write_bytes(content)
        with pytest.raises(CorruptDataError, match="cut off, or of another format"):
            read_snapshot_head(tmp_path / "list")
