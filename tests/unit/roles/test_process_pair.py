"""A process that becomes a mount process and its supervisor; what the mount process does is the test's."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

_PAIR = """
import os, pathlib, signal, sys, time
from headrace.roles import mount, process_pair
from headrace.roles.messages import MountSpec
from headrace.settings.dataset import MountSettings
from headrace.settings.engine import EngineConfig
from headrace.settings.origins import LocalOrigin, OriginMount

folder = pathlib.Path(sys.argv[1])

def begin(spec, supervision):
    beginning = supervision.begin()
{body}

mount.begin = begin
spec = MountSpec(
    config=EngineConfig(name="n", origins=(OriginMount(origin=LocalOrigin(directory=folder)),), state_directory=folder),
    mountpoint=folder,
    settings=MountSettings(),
    registry_directory=folder,
    log_file=None,
)
sys.exit(process_pair.begin_pair(spec))
"""


def ended(tmp_path: Path, body: str) -> subprocess.CompletedProcess[str]:
    """How the process that was called ends when the mount process does this."""
    program = _PAIR.format(body=textwrap.indent(textwrap.dedent(body), "    "))
    command = [sys.executable, "-P", "-c", program, str(tmp_path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_called_process_supervises_its_copy_and_ends_as_that_says(tmp_path: Path) -> None:
    body = """
        above = f"/proc/{os.getppid()}/cmdline"
        while "headrace.roles.supervisor" not in pathlib.Path(above).read_text():
            time.sleep(0.01)
        print(beginning.supervisor_pid == os.getppid(), beginning.restarts, beginning.kept)
        print(os.getpgid(0) == os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        supervision.tell("serving")
        supervision.tell("ended")
        return 0
    """
    done = ended(tmp_path, body)
    assert done.stdout.splitlines() == ["True 0 None", "True set()"], done.stderr
    assert done.returncode == 0, done.stderr


def test_a_mount_process_that_cannot_mount_gives_its_code_to_the_called_one(tmp_path: Path) -> None:
    assert ended(tmp_path, "return 7").returncode == 7


def test_a_mount_process_that_is_killed_before_it_mounts_ends_the_called_one_alike(tmp_path: Path) -> None:
    assert ended(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)").returncode == -9


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_who_ends_the_called_process_ends_the_mount(tmp_path: Path, number: str) -> None:
    """Whenever the signal comes: here, maybe, between two programs."""
    body = f"""
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
        supervision.tell("serving")
        os.kill(beginning.supervisor_pid, signal.{number})
        signal.sigwait((signal.SIGTERM,))
        supervision.tell("ended")
        return 0
    """
    done = ended(tmp_path, body)
    assert done.returncode == 0, done.stderr


def test_the_mount_process_holds_no_end_of_its_supervisor(tmp_path: Path) -> None:
    """Else it would never learn that the supervisor has died."""
    body = """
        os.kill(beginning.supervisor_pid, signal.SIGKILL)
        heard = []
        supervision.watch(heard.append)
        while not heard:
            time.sleep(0.01)
        (folder / "heard").write_text(heard[0])
    """
    ended(tmp_path, body)
    assert (tmp_path / "heard").read_text() == "alone"
