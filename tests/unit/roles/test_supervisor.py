"""A supervisor and the processes it starts, which are programs of the test; integration tests have the real ones."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from headrace.roles.messages import Answer, read_answer

_BEGINNING = """
import os, signal, sys, time
from headrace.roles.supervision.lifeline import ANSWERED, ENDED, HAND_OVER, HANDED_OVER, KEPT, SERVING
from headrace.roles.supervision.lifeline import Lifeline, Message
from headrace.roles.messages import Answer

line = Lifeline.from_descriptor(int(sys.argv[3]))
kept = line.receive().words["kept"]
words = {"words": "{}", "name": "shop", "mountpoint": sys.argv[1], "device": "", "log_file": None}

def keep():
    ends = os.pipe()
    line.send(Message(KEPT, words, ends))
"""
_SUCCESSOR = """
if kept is not None:
    line.send(Message(SERVING))
    Answer(mode="classic", files=2).send(int(sys.argv[4]))
    line.send(Message(ANSWERED))
    line.send(Message(ENDED))
    sys.exit(0)
"""
_SUPERVISOR = """
import sys
from headrace.roles.supervision import child, renewal, supervisor

child._MOUNT_PROCESS = (sys.executable, "-P", sys.argv[1])
renewal._PROGRAM = tuple(sys.orig_argv[:4])
sys.exit(supervisor.main(sys.argv[2:]))
"""


def supervise(tmp_path: Path, body: str, *, is_asked: bool = True) -> tuple[Answer | None, int, str]:
    """What the starter of the mount hears if it asks, the exit code, and what the supervisor said."""
    program = tmp_path / "mount_process.py"
    program.write_text(_BEGINNING + textwrap.dedent(body) + _SUCCESSOR)
    spec = os.memfd_create("spec")
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", _SUPERVISOR, program, tmp_path / "mnt", str(spec)),
            *([str(writer)] if is_asked else []),
        ],
        pass_fds=(spec, writer) if is_asked else (spec,),
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    os.close(spec)
    answer = read_answer(reader)
    try:
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    return answer, process.returncode, said


@pytest.mark.parametrize("again", [1, 3])
def test_a_process_killed_before_it_could_answer_is_replaced_and_its_starter_waits(
    tmp_path: Path, again: int
) -> None:
    """Programs see the mount from the moment the kernel has it, and may read already."""
    body = f"""
        count = os.path.join(os.path.dirname(sys.argv[0]), "count")
        with open(count, "ab+") as file:
            file.write(b".")
        if os.path.getsize(count) <= {again}:
            keep() if kept is None else None
            os.kill(os.getpid(), signal.SIGKILL)
    """
    answer, code, said = supervise(tmp_path, body)
    assert answer is not None
    assert answer.raise_if_failed().files == 2
    assert code == 0
    assert said.count("was ended by SIGKILL") == again


def test_a_process_killed_between_serving_and_its_answer_leaves_the_answer_to_its_successor(
    tmp_path: Path,
) -> None:
    body = """
        if kept is None:
            keep()
            line.send(Message(SERVING))
            os.kill(os.getpid(), signal.SIGKILL)
    """
    answer, code, _ = supervise(tmp_path, body)
    assert answer is not None
    assert answer.files == 2
    assert code == 0


def test_processes_that_die_one_after_another_are_given_up_and_the_starter_hears_nothing(
    tmp_path: Path,
) -> None:
    body = """
        keep() if kept is None else None
        os.kill(os.getpid(), signal.SIGABRT)
    """
    answer, code, said = supervise(tmp_path, body)
    assert answer is None
    assert code == 1
    assert "giving up" in said


def test_a_process_killed_before_there_was_a_mount_ends_its_supervisor_the_same_way(tmp_path: Path) -> None:
    answer, code, _ = supervise(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    assert answer is None
    assert code == -9


def test_a_process_that_says_why_it_could_not_mount_is_not_replaced(tmp_path: Path) -> None:
    body = """
        keep()
        Answer(error_kind="BusyError", error="no").send(int(sys.argv[4]))
        sys.exit(4)
    """
    answer, code, _ = supervise(tmp_path, body)
    assert answer is not None
    assert answer.error == "no"
    assert code == 4


def test_a_process_in_the_foreground_that_was_killed_before_it_served_is_replaced_as_often_as_others(
    tmp_path: Path,
) -> None:
    body = """
        if kept is None:
            keep()
            os.kill(os.getpid(), signal.SIGKILL)
        sys.exit(4)
    """
    _, code, said = supervise(tmp_path, body, is_asked=False)
    assert code == 4
    assert said.count("ended with code 4") > 1
    assert "giving up" in said


def test_a_process_that_is_to_be_replaced_before_it_serves_is_replaced_once_it_does(tmp_path: Path) -> None:
    body = """
        if kept is None:
            keep()
            os.kill(os.getppid(), signal.SIGUSR2)
            time.sleep(0.3)  # The wish is to come first; it is heard in the other order, too.
            line.send(Message(SERVING))
            assert line.receive().kind == HAND_OVER
            line.send(Message(HANDED_OVER))
            sys.exit(0)
        line.send(Message(SERVING))
        line.send(Message(ENDED))
        sys.exit(0)
    """
    _, code, said = supervise(tmp_path, body, is_asked=False)
    assert code == 0
    assert "resumed by process" in said
