"""The samples of docs/training.md are parts of programs that tests/contract/test_training_loops.py runs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "training.md"
SAMPLE = re.compile(r"(?:<!-- from (\S+) -->\n)?```python\n(.*?)```", re.DOTALL)


def test_every_sample_stands_in_the_program_that_it_is_taken_from() -> None:
    samples = SAMPLE.findall(PAGE.read_text())
    assert len(samples) > 10
    for program, sample in samples:
        assert program, f"no comment says which program this is a part of:\n{sample}"
        assert _outdented(sample) in _outdented((ROOT / program).read_text()), (
            f"{program} does not have these lines:\n{sample}"
        )


def test_every_program_is_quoted_or_named() -> None:
    page = PAGE.read_text() + (PAGE.parent.parent / "examples/03-training-loops/README.md").read_text()
    for program in (ROOT / "examples/03-training-loops").glob("*.py"):
        assert program.name in page


def _outdented(program: str) -> str:
    """Its lines without their indentation: what stands deep in a program begins at the margin of the page."""
    return "\n".join(line.strip() for line in program.splitlines())
