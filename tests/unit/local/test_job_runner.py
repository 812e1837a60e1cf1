"""The process of an operation: real programs, started, tried again, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.local.operations.runner_spec import ProgramRun, RunnerSpec, RunnerState, read_runner_state

DEADLINE_S = 60.0
ENVIRONMENT = {"PATH": os.environ["PATH"]}


def shell(script: str, *words: str, **fields: object) -> ProgramRun:
    command = ("sh", "-c", script, "sh", *words)
    return ProgramRun.model_validate({"name": "p", "command": command, "environment": ENVIRONMENT, **fields})


def begin(folder: Path, *stages: tuple[ProgramRun, ...]) -> subprocess.Popen[str]:
    (folder / "errand.json").write_bytes(RunnerSpec(run="once", stages=stages).to_json())
    command = [sys.executable, "-P", "-m", "headrace.local.operations.job_runner", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def run(folder: Path, *stages: tuple[ProgramRun, ...]) -> tuple[RunnerState, str]:
    process = begin(folder, *stages)
    told, _ = process.communicate(timeout=DEADLINE_S)
    state = read_runner_state(folder / "state.json")
    assert state is not None
    assert (state.state, state.exit_code) == ("ended", process.returncode)
    assert not (folder / "errand.json").exists()
    return state, told


def test_words_and_environment_arrive_as_they_are(tmp_path: Path) -> None:
    word = "a  b \"c\" 'd' $(e)"
    program = shell('printf "%s|" "$@"; echo "$V"', word, "", environment={**ENVIRONMENT, "V": word})
    state, told = run(tmp_path, (program,))
    assert state.exit_code == 0
    assert told == f"{word}||{word}\n"


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [("exit 3", 3, "p exited with 3"), ("kill -9 $$", 137, "p was ended by SIGKILL")],
)
def test_how_a_program_ended_is_told(tmp_path: Path, script: str, code: int, message: str) -> None:
    state, _ = run(tmp_path, (shell(script),))
    assert (state.exit_code, state.message) == (code, message)


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = ProgramRun(name="p", command=("no-such-program",), restarts=3)
    state, told = run(tmp_path, (missing,))
    assert state.exit_code == 126
    assert state.message == "p cannot begin: no-such-program: No such file or directory"
    assert told == f"headrace: {state.message}\n"


def test_stages_follow_each_other_until_one_fails(tmp_path: Path) -> None:
    state, told = run(
        tmp_path, (shell("echo 1"),), (shell("echo 2; exit 2"), shell("exit 0")), (shell("echo 3"),)
    )
    assert state.exit_code == 2
    assert told.splitlines() == ["1", "2", "headrace: p exited with 2"]


def test_a_program_is_tried_again_as_often_as_it_may(tmp_path: Path) -> None:
    program = shell('echo x >> tries; [ "$(wc -l < tries)" -ge 2 ]', folder=str(tmp_path), restarts=1)
    state, _ = run(tmp_path, (program,))
    assert (state.exit_code, (tmp_path / "tries").read_text()) == (0, "x\nx\n")
    state, _ = run(tmp_path, (shell("exit 5", restarts=1),))
    assert (state.exit_code, state.message) == (5, "p exited with 5, the last of 2 times")


def test_it_ends_its_programs_when_it_is_told_to_end(tmp_path: Path) -> None:
    process = begin(tmp_path, (shell("echo ready; exec sleep 4325", restarts=3),))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    deadline = time.monotonic() + DEADLINE_S
    while read_runner_state(tmp_path / "state.json") is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=DEADLINE_S)
    state = read_runner_state(tmp_path / "state.json")
    assert state is not None
    assert (state.state, state.exit_code) == ("ended", 143)


_TOLD_AFTER_FORK = """
import os, signal, sys
from headrace.local.operations import job_runner
fork = os.fork
def told():
    pid = fork()
    if pid:
        os.kill(os.getpid(), signal.SIGTERM)
    return pid
os.fork = told
sys.exit(job_runner.main())
"""


_TOLD_AFTER_END = """
import os, signal, sys
from headrace.local.operations import job_runner
wait = os.waitpid
def told(which, options):
    ended = wait(which, options)
    if ended[0]:
        os.kill(os.getpid(), signal.SIGTERM)
    return ended
os.waitpid = told
sys.exit(job_runner.main())
"""


@pytest.mark.parametrize(
    ("told", "script"),
    [(_TOLD_AFTER_FORK, "exec sleep 4326"), (_TOLD_AFTER_END, "true")],
    ids=["has just begun", "has just ended"],
)
def test_an_errand_ends_in_order_though_its_program(tmp_path: Path, told: str, script: str) -> None:
    program = shell(script, restarts=3)
    (tmp_path / "errand.json").write_bytes(RunnerSpec(run="once", stages=((program,),)).to_json())
    command = [sys.executable, "-P", "-c", told, str(tmp_path)]
    with subprocess.Popen(command) as process:
        try:
            assert process.wait(DEADLINE_S) == 143
        finally:
            process.kill()
    state = read_runner_state(tmp_path / "state.json")
    assert state is not None
    assert (state.state, state.exit_code) == ("ended", 143)


# Python's handlers run between two of its steps: a signal that comes after the last of them does not end a wait.
_TOLD_AT_THE_LAST_MOMENT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
static void tell(void) { static int told; if (!told++) raise(SIGTERM); }
pid_t wait(int *status) { tell(); return wait4(-1, status, 0, 0); }
int sigwait(const sigset_t *set, int *number) {
    int (*real)(const sigset_t *, int *) = dlsym(RTLD_NEXT, "sigwait");
    tell();
    return real(set, number);
}
"""


def test_it_hears_that_it_shall_end_at_the_moment_it_begins_to_wait(tmp_path: Path) -> None:
    source, library = tmp_path / "told.c", tmp_path / "told.so"
    source.write_text(_TOLD_AT_THE_LAST_MOMENT)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    (tmp_path / "errand.json").write_bytes(
        RunnerSpec(run="once", stages=((shell("exec sleep 4327"),),)).to_json()
    )
    command = [sys.executable, "-P", "-m", "headrace.local.operations.job_runner", str(tmp_path)]
    with subprocess.Popen(command, env={**os.environ, "LD_PRELOAD": str(library)}) as process:
        try:
            assert process.wait(DEADLINE_S) == 143
        finally:
            process.kill()


def test_an_errand_shows_no_variable() -> None:
    program = shell("true", environment={"TOKEN": "hidden"})
    assert "hidden" not in repr(RunnerSpec(run="once", stages=((program,),)))
