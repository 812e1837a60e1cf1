"""States of mounts that are gone are told of and removed; those of running mounts, and what is no state, stay."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .harness import Shell
from .survival import kill_process, registered, shell_without_server, wait_until_restarted

WEEK_S, DAY_S = 7 * 86_400, 86_400
OWN = """
import fcntl, os, sys
lock = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(lock, fcntl.LOCK_EX)
print("owned", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = shell_without_server(tmp_path / "home")
    made.environment["HEADRACE_STATE_DIR"] = str(tmp_path / "s")
    return made


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "file").write_bytes(b"content")
    return folder


def age(folder: Path, seconds: float) -> None:
    """As if nothing was written there for so long."""
    then = time.time() - seconds
    for parent, _, files in os.walk(folder):
        for path in (parent, *(f"{parent}/{name}" for name in files)):
            with contextlib.suppress(FileNotFoundError):  # a running mount works there
                os.utime(path, (then, then))


def left_by_a_mount(shell: Shell, source: Path, tmp_path: Path, name: str, age_s: float) -> Path:
    """The state of a mount that is gone for so long."""
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / name) as mountpoint:
        state = Path(registered(shell, mountpoint).state_directory)
    age(state, age_s)
    return state


def test_a_state_that_holds_what_programs_wrote_stays(shell: Shell, source: Path, tmp_path: Path) -> None:
    state = left_by_a_mount(shell, source, tmp_path, "one", 0)
    staging = state / "staging-0123456789abcdef"
    staging.mkdir(mode=0o700)
    (staging / "0001000000000001.staged").write_bytes(b"in no bucket yet")
    age(state, 2 * WEEK_S)
    assert json.loads(shell.must("prune", "--unused-for", "1h", "--json").stdout) == []
    assert (staging / "0001000000000001.staged").read_bytes() == b"in no bucket yet"
    (staging / "0001000000000001.staged").unlink()
    age(state, 2 * WEEK_S)
    shell.must("prune", "--unused-for", "1h")
    assert not state.exists()


def test_states_of_mounts_that_are_gone_are_told_of_and_removed(
    shell: Shell, source: Path, tmp_path: Path
) -> None:
    old = left_by_a_mount(shell, source, tmp_path, "one", WEEK_S + 60)
    young = left_by_a_mount(shell, source, tmp_path, "two", DAY_S)
    other = tmp_path / "s" / "no-state"
    other.mkdir()
    (other / "file").write_bytes(b"somebody's")
    age(other, 40 * DAY_S)
    assert "states that mounts left a week ago or longer: 1; headrace prune" in shell.must("status").talk
    found = json.loads(shell.must("prune", "--unused-for", "1h", "--dry-run", "--json").stdout)
    assert [Path(each["path"]) for each in found] == [old, young]
    assert all(each["size_bytes"] > 0 for each in found)
    assert old.exists()
    assert f"{old}  " in shell.must("prune").stdout
    assert not old.exists()
    assert young.exists()
    shell.must("prune", "--unused-for", "0s")
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["no-state"]
    assert "states that mounts left" not in shell.must("status").talk
    assert "is not a duration" in shell.run("prune", "--unused-for", "a week").talk


def test_a_new_mount_removes_what_nobody_used_for_a_month_but_its_own(
    shell: Shell, source: Path, tmp_path: Path
) -> None:
    old, younger, own = (
        left_by_a_mount(shell, source, tmp_path, name, 0) for name in ("one", "two", "three")
    )
    for state, days in ((old, 31), (younger, 29), (own, 31)):
        age(state, days * DAY_S)
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "three") as mountpoint:
        assert Path(registered(shell, mountpoint).state_directory) == own
        assert (mountpoint / "file").read_bytes() == b"content"
    assert (old.exists(), younger.exists()) == (False, True)


def test_the_state_of_a_running_mount_stays_also_while_its_process_is_replaced(
    shell: Shell, source: Path, tmp_path: Path
) -> None:
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "one") as mountpoint:
        state = Path(registered(shell, mountpoint).state_directory)
        age(state, 40 * DAY_S)
        assert "removed 0 states" in shell.must("prune", "--unused-for", "0s").talk
        beyond = kill_process(shell, mountpoint)
        assert "removed 0 states" in shell.must("prune", "--unused-for", "0s").talk
        wait_until_restarted(shell, mountpoint, beyond=beyond)
        assert (mountpoint / "file").read_bytes() == b"content"
        assert state.exists()


def test_what_somebody_owns_without_being_registered_stays(
    shell: Shell, source: Path, tmp_path: Path
) -> None:
    state = left_by_a_mount(shell, source, tmp_path, "one", 40 * DAY_S)
    command = [sys.executable, "-c", OWN, str(state / "owner.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "owned\n"
        shell.must("prune", "--unused-for", "0s")
        assert state.exists()
        owner.kill()
    shell.must("prune", "--unused-for", "0s")
    assert not state.exists()


def test_a_removal_that_was_cut_off_is_finished(shell: Shell, source: Path, tmp_path: Path) -> None:
    state = left_by_a_mount(shell, source, tmp_path, "one", DAY_S)
    going = state.rename(state.with_name(f".going-1-{state.name}"))
    (going / "owner.lock").unlink()
    age(going, DAY_S)
    shell.must("prune", "--unused-for", "1h")
    assert list((tmp_path / "s").iterdir()) == []
