"""The process of an instance: real programs, started, killed, told to end; and ranks that others start in it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.local.jobs.instance_spec import (
    GROUPS_FILE,
    SPEC_FILE,
    STATE_FILE,
    InstanceReport,
    InstanceSpec,
    read_instance_report,
)
from headrace.local.jobs.log_reader import LogQuery, lines_of
from headrace.local.jobs.rank_launcher import SOCKET_FILE, TOKEN_FILE
from headrace.local.jobs.resource_limits import remove_groups_of_job
from headrace.local.processes.cgroups import Limits, why_not
from headrace.process.stat import stat_of

DEADLINE_S = 60.0
TOKEN = "0123456789abcdef"
ENVIRONMENT = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}


class Job:
    """The folder of a job with one instance."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.instance = folder / "instances" / "a"
        self.instance.mkdir(parents=True)
        self.log = folder / "a.log"
        (folder / TOKEN_FILE).write_text(TOKEN)

    def begin(self, *command: str, **fields: Any) -> subprocess.Popen[bytes]:
        own = {"environment": ENVIRONMENT, "folder": str(self.folder), "is_apart": False, **fields}
        orders = InstanceSpec(run="r-1", name="a", command=command, log=str(self.log), **own)
        (self.instance / SPEC_FILE).write_bytes(orders.to_json())
        words = [sys.executable, "-P", "-m", "headrace.local.jobs.instance_process", str(self.instance)]
        return subprocess.Popen(words)

    def run(self, *command: str, **fields: Any) -> InstanceReport:
        process = self.begin(*command, **fields)
        code = process.wait(DEADLINE_S)
        report = self.report()
        assert report is not None
        assert (report.state, report.exit_code) == ("ended", code)
        assert not (self.instance / SPEC_FILE).exists()
        return report

    def report(self) -> InstanceReport | None:
        return read_instance_report(self.instance / STATE_FILE)

    def lines(self) -> list[str]:
        return [line.text.decode() for line in lines_of(self.log, LogQuery())]

    def remote(self, line: str, *, name: str = "a") -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-P", "-m", "headrace.local.jobs.rank_launcher", str(self.folder), name]
        return subprocess.run(
            [*words, *line.split(" ")],
            input="said\n",
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def wait_for(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not what():
            assert time.monotonic() < deadline, (self.report(), self.lines() if self.log.exists() else "")
            time.sleep(0.02)

    def wait_until_up(self) -> None:
        self.wait_for(lambda: (report := self.report()) is not None and report.state == "up")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


@contextlib.contextmanager
def serving(job: Job) -> Iterator[subprocess.Popen[bytes]]:
    process = job.begin(token=TOKEN)
    try:
        job.wait_until_up()
        yield process
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def lives(pid: int) -> bool:
    stat = stat_of(pid)
    return stat is not None and not stat.has_ended


@pytest.mark.parametrize("word", ["a,b", "c 'd' \"e\"", "$(f) `g` # : x", "ü\nsecond \\n", ""])
def test_words_and_variables_arrive_unchanged(job: Job, word: str) -> None:
    script = 'import os, sys; print(repr((sys.argv[1:], os.environ["V"])))'
    job.run(sys.executable, "-c", script, word, environment={**ENVIRONMENT, "V": word})
    assert job.lines() == [repr(([word], word))]


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (("sh", "-c", "echo out; echo err >&2; exit 3"), 3, "exited with 3"),
        (("sh", "-c", "kill -9 $$"), 137, "was killed by SIGKILL"),
        (("no-such-program",), 126, "cannot begin: [Errno 2] No such file or directory: 'no-such-program'"),
    ],
)
def test_how_a_program_ended_is_told(job: Job, command: tuple[str, ...], code: int, message: str) -> None:
    report = job.run(*command)
    assert (report.exit_code, report.message) == (code, message)
    assert job.lines()[-1] == f"headrace: {message}"


def test_a_working_folder_that_is_not_there_is_named(job: Job) -> None:
    assert "'/not/there'" in job.run("true", folder="/not/there").message


def test_nothing_that_a_program_left_behind_outlives_it(job: Job) -> None:
    report = job.run("sh", "-c", "setsid sleep 600 & echo $!; exit 0")
    assert report.exit_code == 0
    assert not lives(int(job.lines()[0]))


def test_who_is_told_to_end_ends_its_programs_first(job: Job) -> None:
    process = job.begin("sh", "-c", "trap 'echo asked; exit 4' TERM; echo up; while :; do sleep 0.05; done")
    job.wait_for(lambda: job.log.exists() and "up" in job.lines())
    process.terminate()
    assert process.wait(DEADLINE_S) == 4
    assert "asked" in job.lines()


def test_ranks_are_started_with_the_streams_and_the_code_of_who_asks(job: Job) -> None:
    with serving(job):
        done = job.remote("read word; echo got $word; echo err >&2; exit 6")
        assert (done.returncode, done.stdout, done.stderr) == (6, "got said\n", "err\n")
        assert (job.instance / SOCKET_FILE).stat().st_mode & 0o777 == 0o600


def test_without_the_token_nobody_is_let_in(job: Job) -> None:
    with serving(job):
        (job.folder / TOKEN_FILE).write_text("another")
        done = job.remote(f"touch {job.folder}/was-here")
        assert done.returncode == 255
        assert "ranks cannot be started in a" in done.stderr
        (job.folder / TOKEN_FILE).write_text(TOKEN)
        assert job.remote("true").returncode == 0
        assert not (job.folder / "was-here").exists()


def test_an_instance_that_is_not_there_is_named(job: Job) -> None:
    for name in ("b", "../a"):
        done = job.remote("true", name=name)
        assert done.returncode == 255
        assert name in done.stderr


def test_ranks_end_with_their_instance(job: Job) -> None:
    with serving(job) as process:
        # As orted does it: away from who started it.
        pid = int(job.remote("setsid sleep 600 >/dev/null 2>&1 & echo $!").stdout)
        assert lives(pid)
        process.terminate()
        process.wait(DEADLINE_S)
        assert not lives(pid)


def test_a_killed_instance_leaves_no_word_of_an_end(job: Job) -> None:
    process = job.begin("sleep", "600")
    job.wait_until_up()
    report = job.report()
    assert report is not None
    process.kill()
    process.wait(DEADLINE_S)
    os.kill(report.pid, signal.SIGKILL)
    assert job.report() == report


LIMIT = 64 << 20
FILL = f"{sys.executable} -c 'bytearray(1 << 29)'"
OVER = "went over its memory limit of 64.00MiB and was killed (OOMKilled)"
needs_groups = pytest.mark.skipif(
    bool(why_not(Limits(LIMIT, 0.5))), reason=f"no limits here: {why_not(Limits(LIMIT, 0.5))}"
)


def groups_of(job: Job) -> list[Path]:
    return [Path(line) for line in (job.instance / GROUPS_FILE).read_text().splitlines()]


@needs_groups
@pytest.mark.parametrize("line", [f"exec {FILL}", f"{FILL} & sleep 600", f"{FILL}; exit 3"])
def test_who_goes_over_its_memory_is_ended_as_a_whole_and_says_so(job: Job, line: str) -> None:
    report = job.run("sh", "-c", line, memory_bytes=LIMIT)
    assert report.exit_code in (137, 3)
    assert (report.is_out_of_memory, report.message) == (True, OVER)
    assert job.lines()[-1] == f"headrace: {OVER}"
    assert not (job.instance / GROUPS_FILE).exists()


@needs_groups
def test_ranks_that_go_over_the_memory_of_their_instance_end_it(job: Job) -> None:
    process = job.begin(token=TOKEN, memory_bytes=LIMIT)
    job.wait_until_up()
    assert job.remote(FILL).returncode == 137
    assert process.wait(DEADLINE_S) == 137
    report = job.report()
    assert report is not None
    assert (report.is_out_of_memory, report.message) == (True, OVER)


@needs_groups
def test_programs_have_no_more_processors_than_they_were_given(job: Job) -> None:
    process = job.begin("sleep", "600", memory_bytes=LIMIT, cpus=0.5)
    job.wait_until_up()
    groups, report = groups_of(job), job.report()
    assert report is not None
    for group in groups:
        assert str(report.pid) in (group / "cgroup.procs").read_text().split()
    told = [path.read_text() for group in groups for path in group.glob("cpu.[mc][af][xs]*")]
    assert "50000" in " ".join(told).split()
    process.terminate()
    process.wait(DEADLINE_S)
    assert [group for group in groups if group.exists()] == []


@needs_groups
def test_the_group_of_a_killed_instance_is_found_and_removed(job: Job) -> None:
    process = job.begin("sleep", "600", memory_bytes=LIMIT)
    job.wait_until_up()
    groups, report = groups_of(job), job.report()
    assert report is not None
    process.kill()
    process.wait(DEADLINE_S)
    os.kill(report.pid, signal.SIGKILL)
    job.wait_for(lambda: not lives(report.pid))
    remove_groups_of_job(job.folder)
    assert [group for group in groups if group.exists()] == []
    assert not (job.instance / GROUPS_FILE).exists()
