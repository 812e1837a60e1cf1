"""What a long step of a set-up tells, and what is left of one that fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
RUN_STEP = CHECKOUT / "tools" / "run_step.py"


def run_step(log: Path, *command: str) -> subprocess.CompletedProcess[str]:
    words = (
        "--say",
        "building a thing",
        "--log",
        str(log),
        "--takes",
        "90",
        "--count",
        "^compiled",
        "--of",
        "4",
    )
    return subprocess.run(
        [sys.executable, str(RUN_STEP), *words, "--", *command], capture_output=True, text=True, check=False
    )


def test_a_step_says_what_it_does_and_keeps_the_output_of_its_command_to_the_log(tmp_path: Path) -> None:
    done = run_step(tmp_path / "log", "sh", "-c", "echo compiled one; echo compiled two >&2")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "setup: building a thing (about 1 min 30 s)\n"
    assert (tmp_path / "log").read_text() == "compiled one\ncompiled two\n"


def test_a_step_that_fails_tells_the_end_of_its_log_and_where_the_rest_is(tmp_path: Path) -> None:
    done = run_step(tmp_path / "log", "sh", "-c", "seq 1 100; exit 7")
    assert done.returncode == 7
    assert "\n81\n" in done.stderr
    assert "\n80\n" not in done.stderr
    assert done.stderr.endswith(f"setup: building a thing failed; the whole log is in {tmp_path / 'log'}\n")


def test_progress_is_told_by_what_is_known_of_a_step() -> None:
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "from run_step import progress as p; "
            "print(p(30, 90, 2, 4), p(30, 90, 7, 0), p(30, 90, 0, 0), p(100, 90, 9, 4), sep='\\n')",
        ],
        cwd=RUN_STEP.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines() == [
        "2 of 4, about 1 min 0 s left",
        "7 done, about 1 min 0 s left",
        "about 1 min 0 s left",
        "4 of 4, 1 min 40 s so far, longer than usual",
    ]
