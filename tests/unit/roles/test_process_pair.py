"""A process that becomes a mount process and its supervisor; what the mount process does is the test's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from headrace.roles.launching import process_pair
from headrace.roles.messages import MountSpec
from headrace.settings.dataset import MountSettings
from headrace.settings.engine import EngineConfig
from headrace.settings.environment import Environment
from headrace.settings.origins import OriginMount, S3Origin

_PAIR = """
import os, pathlib, signal, sys, time
from headrace.roles.launching import process_pair
from headrace.roles.processes import mount
from headrace.roles.messages import MountSpec
from headrace.settings.dataset import MountSettings
from headrace.settings.engine import EngineConfig
from headrace.settings.origins import LocalOrigin, OriginMount

folder = pathlib.Path(sys.argv[1])

def begin(spec, supervision, answer=None):
    beginning = supervision.begin()
{body}

mount.begin = begin
spec = MountSpec(
    config=EngineConfig(name="n", origins=(OriginMount(origin=LocalOrigin(directory=folder)),), state_directory=folder),
    mountpoint=folder,
    settings=MountSettings(),
    registry_directory=folder,
    log_file=folder / "log",
)
"""
_IN_FOREGROUND = "sys.exit(process_pair.begin_pair(spec))"


def ended(
    tmp_path: Path, body: str, start: str = _IN_FOREGROUND, **variables: str
) -> subprocess.CompletedProcess[str]:
    """How the process that was called, with these variables, ends when the mount process does this."""
    program = _PAIR.format(body=textwrap.indent(textwrap.dedent(body), "    ")) + start
    command = [sys.executable, "-P", "-c", program, str(tmp_path)]
    called = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=called)


_SERVE = "from headrace.settings.environment import Environment\n"
_SERVED = {
    "foreground": _SERVE + "sys.exit(process_pair.serve_mount(spec, Environment.current()))",
    "background": _SERVE + "process_pair.launch_mount(spec, Environment.current()).wait()",
}


@pytest.mark.parametrize("way", _SERVED)
def test_a_process_with_a_credential_in_a_variable_is_copied_and_shows_it_no_more(
    tmp_path: Path, way: str
) -> None:
    body = """
        from headrace.roles.messages import Answer
        supervision.tell("serving")
        above = f"/proc/{os.getppid()}"
        while "headrace.roles.supervision.supervisor" not in pathlib.Path(above, "cmdline").read_text():
            time.sleep(0.01)
        shown = [pathlib.Path(who, "environ").read_text() for who in ("/proc/self", above)]
        is_copy = "process_pair" in pathlib.Path("/proc/self/cmdline").read_text()
        (folder / "told").write_text(f"{is_copy} {[('PLANTED' in one, 'KEPT=1' in one) for one in shown]}")
        if answer is not None:
            Answer(files=7).send(answer)
        supervision.tell("answered")
        supervision.tell("ended")
        return 0
    """
    done = ended(tmp_path, body, _SERVED[way], AWS_SECRET_ACCESS_KEY="PLANTED", KEPT="1")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "told").read_text() == "True [(False, True), (False, True)]"


def test_the_called_process_supervises_its_copy_and_ends_as_that_says(tmp_path: Path) -> None:
    body = """
        above = f"/proc/{os.getppid()}/cmdline"
        while "headrace.roles.supervision.supervisor" not in pathlib.Path(above).read_text():
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


_IN_BACKGROUND = "print(process_pair.launch_pair(spec).wait().files)"


def test_a_pair_in_the_background_answers_and_holds_nothing_of_its_caller(tmp_path: Path) -> None:
    body = """
        from headrace.roles.messages import Answer
        supervision.tell("serving")
        Answer(files=7).send(answer)
        supervision.tell("answered")
        above = f"/proc/{os.getppid()}"
        files = [os.readlink(f"{who}/fd/{n}") for who in ("/proc/self", above) for n in (0, 1, 2)]
        held = [who for who in ("/proc/self", above) if os.path.exists(f"{who}/fd/77")]
        (folder / "found").write_text(f"{os.getsid(0) == os.getppid()} {os.getcwd()} {set(files)} {held}")
        os.rename(folder / "found", folder / "told")
        supervision.tell("ended")
        return 0
    """
    # As a lock of a shell's is inherited: whoever holds it after its caller keeps it locked.
    lock = "os.dup2(os.open(folder / 'lock', os.O_CREAT | os.O_RDWR), 77, inheritable=True)\n"
    done = ended(tmp_path, body, lock + _IN_BACKGROUND)
    assert done.stdout == "7\n", done.stderr
    deadline = time.monotonic() + 60
    while not (tmp_path / "told").exists():
        assert time.monotonic() < deadline, "it told nothing"
        time.sleep(0.01)
    assert (tmp_path / "told").read_text() == "True / {'/dev/null'} []"


def test_what_a_pair_in_the_background_answers_is_raised(tmp_path: Path) -> None:
    body = """
        from headrace.errors import RefusedError
        from headrace.roles.messages import Answer
        Answer.of_error(RefusedError.of("not so", hint="do")).send(answer)
        return 5
    """
    done = ended(tmp_path, body, _IN_BACKGROUND)
    assert done.returncode == 1
    assert "RefusedError: not so" in done.stderr


def test_a_pair_in_the_background_that_is_killed_before_it_mounts_is_told(tmp_path: Path) -> None:
    done = ended(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)", _IN_BACKGROUND)
    assert "the mount process was ended by signal 9 before it was ready" in done.stderr


def test_an_interrupt_of_the_caller_ends_a_pair_in_the_background(tmp_path: Path) -> None:
    body = """
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
        os.kill(int((folder / "caller").read_text()), signal.SIGINT)
        signal.sigwait((signal.SIGTERM,))
        (folder / "told").touch()
        return 0
    """
    caller = "(folder / 'caller').write_text(str(os.getpid()))\n"
    assert "KeyboardInterrupt" in ended(tmp_path, body, caller + _IN_BACKGROUND).stderr
    deadline = time.monotonic() + 60
    while not (tmp_path / "told").exists():
        assert time.monotonic() < deadline, "it was not told to end"
        time.sleep(0.01)


def spec_of(folder: Path, **fields: Any) -> MountSpec:
    origin = S3Origin(bucket="b", access_key_id=SecretStr("i/d"), secret_access_key=SecretStr("pl+nted"))
    return MountSpec(
        config=EngineConfig(name="n", origins=(OriginMount(origin=origin),), state_directory=folder),
        mountpoint=folder,
        settings=MountSettings(),
        registry_directory=folder,
        log_file=None,
        **fields,
    )


@pytest.mark.parametrize(
    ("words", "variables", "is_copied"),
    [
        (["headrace", "mount", "s3://b", "/m", "--config", "f"], {"HOME": "/root"}, True),
        (["headrace", "mount", "s3://b", "/m", "--option", "key=pl+nted"], {}, False),
        (["headrace", "mount", "s3://i%2fd:pl%2Bnted@b", "/m"], {}, False),
        (["headrace", "mount", "s3://b", "/m"], {"AWS_SECRET_ACCESS_KEY": "another"}, False),
        (["headrace", "mount", "s3://b", "/m"], {"MINE": "x pl+nted"}, False),
    ],
    ids=["nothing", "an option", "an address", "a variable for credentials", "another variable"],
)
def test_only_a_process_that_shows_no_credential_is_copied(
    tmp_path: Path, words: list[str], variables: dict[str, str], *, is_copied: bool
) -> None:
    program = (
        "import json, sys\nfrom headrace.roles.launching import process_pair\n"
        "from headrace.roles.messages import MountSpec\n"
        "from headrace.settings.environment import Environment\n"
        "spec = MountSpec.from_descriptor(int(sys.argv[1]))\nwords, variables = json.loads(sys.argv[2])\n"
        "print(process_pair.may_be_copied(spec, Environment(variables), words))"
    )
    descriptor = spec_of(tmp_path).to_descriptor()
    command = [sys.executable, "-P", "-c", program, str(descriptor), json.dumps([words, variables])]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60, pass_fds=(descriptor,)
    )
    os.close(descriptor)
    assert done.stdout == f"{is_copied}\n"


def test_neither_a_mount_of_a_keeper_nor_a_process_with_threads_is_copied(tmp_path: Path) -> None:
    plain = Environment({})
    assert not process_pair.may_be_copied(spec_of(tmp_path, keeper=tmp_path / "socket"), plain, [])
    waiting = threading.Event()
    thread = threading.Thread(target=waiting.wait)
    thread.start()
    try:
        assert not process_pair.may_be_copied(spec_of(tmp_path), plain, [])
    finally:
        waiting.set()
        thread.join()
