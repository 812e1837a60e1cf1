"""The benchmark of very many files: its rows, and the lines of the program that measures them."""

from __future__ import annotations

import pytest
from benchmarks import rows_at_scale as rows
from benchmarks.workloads.many_files import ROOT, parse


def test_steps_are_parsed() -> None:
    assert parse(["open again\t0.104208", "status, next\t0.000012"]) == {
        "open again": 0.104208,
        "status, next": 0.000012,
    }


@pytest.mark.parametrize("line", ["open again", "open again\tsoon", "a\t1\t2"])
def test_a_line_that_is_no_step_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"unpack|float"):
        parse([line])


def test_every_row_is_a_step_of_the_program() -> None:
    program = (ROOT / "crates/engine/examples/many_files/main.rs").read_text()
    steps = rows.many_files_rows(10, 5)
    assert [step for step in steps if f'timed("{step}"' not in program] == []
    assert len({row.key for row in steps.values()}) == len(steps)
