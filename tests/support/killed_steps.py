"""A local backend whose setup or teardown is killed at one of its calls of `ip`: in the end nothing may be left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import backends

from headrace.errors import HeadraceError
from headrace.local.layout import BackendLayout
from headrace.local.protocol.client import LocalClient
from headrace.local.store.database import Database
from headrace.netns.namespaces import can_make_namespaces, namespaces


def ours(instance: str) -> list[str]:
    """What the kernel has of a backend: its namespaces and links."""
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
    found = [name for name in namespaces() if instance in name] if can_make_namespaces() else []
    return found + [line for line in links.splitlines() if instance in line]


def instance_of(layout: BackendLayout) -> str:
    database = Database(layout.database)
    database.close()
    return database.instance


def setup_killed_at(folder: Path, step: int) -> bool:
    """Kills the supervisor at that call of `ip`; true when its setup has fewer.

    After an odd step the next `up` finishes it; after an even one it is taken away as it is.
    """
    layout = BackendLayout(folder / str(step) / "local")
    with mock.patch.dict(os.environ, {"PATH": _path(folder, step)}):
        try:
            backends.bring_up(layout)
        except HeadraceError as error:
            assert "before it was ready" in error.message
            finished = False
        else:
            finished = True
    instance = instance_of(layout)
    if step % 2 and not finished:
        backends.bring_up(layout)
        (node,) = LocalClient(layout).status().nodes
        assert node.state == "Ready"
    _take_away(layout, instance)
    return finished


def teardown_killed_at(folder: Path, step: int) -> bool:
    """Kills `down` at that call of `ip`, and calls it again; true when it has fewer."""
    layout = BackendLayout(folder / "local")
    backends.bring_up(layout)
    instance = instance_of(layout)
    environment = {**os.environ, "PATH": _path(folder, step), "HEADRACE_STATE_DIR": str(folder)}
    command = [sys.executable, "-P", "-m", "headrace.cli.main", "down"]
    code = subprocess.run(command, env=environment, capture_output=True, check=False).returncode
    assert code in (0, -signal.SIGKILL)
    _take_away(layout, instance)
    return code == 0


def _take_away(layout: BackendLayout, instance: str) -> None:
    backends.take_down(layout)
    assert ours(instance) == []
    assert not layout.folder.exists()


def _path(folder: Path, step: int) -> str:
    """PATH with an `ip` before the real one that does its work, and kills who called it at the given call."""
    real, place = shutil.which("ip"), folder / f"bin-{step}"
    place.mkdir(exist_ok=True)
    count, program = place / "count", place / "ip"
    count.write_text("0")
    program.write_text(
        "#!/bin/sh\n"
        f"n=$(($(cat {count}) + 1)); echo $n > {count}\n"
        f'if [ $n = {step} ]; then {real} "$@"; kill -9 $PPID; exit 1; fi\n'
        f'exec {real} "$@"\n'
    )
    program.chmod(0o755)
    return f"{place}{os.pathsep}{os.environ['PATH']}"
