#!/usr/bin/env python3
"""Runs one long step of a set-up: its output goes to a log, and the terminal is told how far it is.

A line each 15 seconds says what is being done, how much of it is done where lines of the output can be counted, and
about how long it will still take. A step that fails ends with the last lines of its log. Needs no package: it runs
before any is installed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

INTERVAL_S = 15
LAST_LINES = 20


def main() -> int:
    """The exit status of the command."""
    step = _arguments()
    started_s = time.monotonic()
    _tell(f"setup: {step.say} (about {_duration(step.takes)})")
    with step.log.open("wb") as log:
        process = subprocess.Popen(
            step.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        status = _wait(process, step, started_s)
    except KeyboardInterrupt:
        # The terminal has told the command as well.
        process.wait()
        return 130
    if status:
        _tell("\n".join(step.log.read_text(errors="replace").splitlines()[-LAST_LINES:]))
        _tell(f"setup: {step.say} failed; the whole log is in {step.log}")
    return status


def _wait(process: subprocess.Popen[bytes], step: argparse.Namespace, started_s: float) -> int:
    while True:
        try:
            return process.wait(INTERVAL_S)
        except subprocess.TimeoutExpired:
            done = (
                len(re.findall(step.count, step.log.read_text(errors="replace"), re.M)) if step.count else 0
            )
            _tell(f"setup: {step.say}: {progress(time.monotonic() - started_s, step.takes, done, step.of)}")


def progress(elapsed_s: float, takes_s: float, done: int, of: int) -> str:
    """How far a step is, and how long it may still take; `done` and `of` are 0 where they are not known."""
    parts = []
    if of:
        parts.append(f"{min(done, of)} of {of}")
    elif done:
        parts.append(f"{done} done")
    left_s = takes_s - elapsed_s
    parts.append(
        f"about {_duration(left_s)} left"
        if left_s > 0
        else f"{_duration(elapsed_s)} so far, longer than usual"
    )
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(max(round(seconds / 5) * 5, 5), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--say", required=True, help="what is done, as in “building the engine”")
    parser.add_argument("--log", required=True, type=Path, help="the file for its output")
    parser.add_argument("--takes", required=True, type=float, help="seconds that it takes on two cores")
    parser.add_argument("--count", default="", help="regular expression of the lines to count")
    parser.add_argument("--of", type=int, default=0, help="how many of them there will be")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    step = parser.parse_args()
    if step.command[:1] == ["--"]:
        del step.command[0]
    return step


if __name__ == "__main__":
    sys.exit(main())
