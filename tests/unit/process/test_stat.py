"""What the kernel says of processes, at moments when it says less than usual."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.process.stat import strings_of

TIMES = 100
AGAIN = (
    "import os, sys; left = int(sys.argv[1]); "
    "left and os.execv(sys.executable, [*sys.orig_argv[:-1], str(left - 1)])"
)


@pytest.mark.parametrize("kind", ["cmdline", "environ"])
def test_a_process_that_becomes_another_program_has_words_and_variables_all_the_time(kind) -> None:
    command = [sys.executable, "-I", "-S", "-c", AGAIN, str(TIMES)]
    found = []
    with subprocess.Popen(command, env={"MARK": "set"}) as process, contextlib.suppress(ProcessLookupError):
        while process.poll() is None:
            found.append(strings_of(process.pid, kind) != [b""])
    assert process.returncode == 0
    # At its end it gives its memory back, a moment before it can be waited for.
    last = max(number for number, is_there in enumerate(found) if is_there)
    assert found[:last].count(False) == 0
    assert last > TIMES


def test_a_process_without_variables_and_one_that_has_ended_have_none() -> None:
    with subprocess.Popen(["sleep", "60"], env={}) as process:
        assert strings_of(process.pid, "environ") == [b""]
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{process.pid}/stat").exists()
        assert strings_of(process.pid, "cmdline") == [b""]
    with pytest.raises(FileNotFoundError):
        strings_of(process.pid, "environ")
