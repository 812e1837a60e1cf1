from __future__ import annotations

import os

import pytest
from tools.record_session import Terminal, check, recorded
from tools.terminal_picture import Line

DIGESTS = {"train": "aa11", "val": "bb22"}
SHOWN = [
    "aa11  -",
    "aa11  -",
    "$ wait; md5sum",
    "bb22  -",
    "bb22  -",
    "restarts  1; the last process was ended by SIGKILL",
]


def lines(*texts: str) -> list[Line]:
    return [Line(0.0, text) for text in texts]


def test_a_session_that_shows_what_it_claims_passes() -> None:
    check(lines(*SHOWN), DIGESTS)


@pytest.mark.parametrize(
    ("shown", "fault"),
    [
        ([*SHOWN[:4], "cc33  -", SHOWN[5]], "the files of val were not read twice"),
        (SHOWN[:5], "the process of the mount was not replaced"),
        ([*SHOWN[:2], "bb22  -", SHOWN[2], *SHOWN[4:]], "the reader had ended before"),
    ],
)
def test_a_session_that_shows_less_is_refused(shown: list[str], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        check(lines(*shown), DIGESTS)


def test_commands_run_in_one_shell_and_their_output_is_told_with_its_time(tmp_path) -> None:
    session = ("word=seen; pwd", "echo $word $KEY >&2 &", "wait; false; echo $?")
    shown = recorded(session, tmp_path, {"KEY": "value"})
    assert [line.text for line in shown if line.is_command] == list(session)
    assert sorted(line.text for line in shown if not line.is_command) == ["1", "seen value", "~"]
    assert [line.at_s for line in shown] == sorted(line.at_s for line in shown)


def test_what_comes_behind_the_end_of_a_command_is_told_with_the_next() -> None:
    reads, writes = os.pipe()
    terminal = Terminal(reads)
    os.write(writes, b"one\r\ntwo\x1dthree\r\n\x1d\x1d")
    assert [[text for _, text in terminal.lines()] for _ in range(3)] == [["one", "two"], ["three"], []]
    os.close(reads)
    os.close(writes)
