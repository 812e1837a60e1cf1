"""The machine's network is changed by one process at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.netns.commands import CommandError
from headrace.netns.lock import network_lock

HOLD = """
import sys
from pathlib import Path
from headrace.netns.lock import network_lock
with network_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.root
def test_who_cannot_have_it_is_told_and_a_killed_holder_gives_it_back(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(CommandError, match=f"for too long; it holds {path}"), network_lock(path, 0.1):
            pass
        holder.kill()
    with network_lock(path):
        pass


@pytest.mark.root
def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"), network_lock(tmp_path / "lock"):
        pass
    assert not (tmp_path / "elsewhere").exists()
