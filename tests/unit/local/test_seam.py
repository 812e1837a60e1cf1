"""From a declaration to a process and back, through the whole backend, with a reconciler that is as small as can be."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import backends
import pytest

from headrace.cli.main import main
from headrace.local.layout import BackendLayout
from headrace.local.lifecycle import launch
from headrace.local.protocol.client import LocalClient
from headrace.local.protocol.messages import RoleLine
from headrace.process.stat import started_ticks

DEADLINE_S = 60.0
DATASET = """apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: shop}
spec: {mounts: [{mountPoint: "s3://bucket", name: images}]}
"""


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    toy = Path(backends.__file__).with_name("toy_supervisor.py")
    monkeypatch.setattr(launch, "_PROGRAM", (sys.executable, "-P", str(toy)))
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path))
    (tmp_path / "dataset.yaml").write_text(DATASET)
    layout = BackendLayout(tmp_path / "local")
    yield layout
    backends.take_down(layout)


def worker(layout: BackendLayout) -> RoleLine:
    (role,) = LocalClient(layout).status().roles
    return role


def eventually(look: Callable[[], object], wanted: object) -> object:
    """What is seen once it is that; else what was seen last."""
    deadline = time.monotonic() + DEADLINE_S
    while (seen := look()) != wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    return seen


def applied(layout: BackendLayout, tmp_path: Path) -> RoleLine:
    assert main(["up"]) == 0
    assert main(["apply", "-f", str(tmp_path / "dataset.yaml")]) == 0
    assert main(["wait", "--for=condition=Ready", "dataset/shop"]) == 0
    return worker(layout)


def test_a_dataset_is_served_watched_and_taken_away(layout: BackendLayout, tmp_path: Path, capsys) -> None:
    role = applied(layout, tmp_path)
    assert (role.state, role.role, role.node) == ("running", "worker", "node-1")
    capsys.readouterr()
    said = f"serving as {role.pid}\n"
    assert eventually(lambda: (main(["logs", "shop"]), capsys.readouterr().out)[1], said) == said
    assert main(["events"]) == 0
    assert "Started   dataset/shop   worker-0 runs on node-1" in capsys.readouterr().out
    assert main(["delete", "-f", str(tmp_path / "dataset.yaml")]) == 0
    assert started_ticks(role.pid) is None
    assert LocalClient(layout).status().roles == ()


def test_a_role_outlives_the_supervisor_and_is_taken_over(layout: BackendLayout, tmp_path: Path) -> None:
    role = applied(layout, tmp_path)
    backends.kill(LocalClient(layout))
    assert main(["up"]) == 0
    # It answers before it has looked for the first time.
    assert eventually(lambda: LocalClient(layout).status().roles, (role,)) == (role,)
    assert main(["delete", "dataset", "shop"]) == 0
    assert started_ticks(role.pid) is None


def test_a_role_that_dies_is_started_again(layout: BackendLayout, tmp_path: Path) -> None:
    role = applied(layout, tmp_path)
    os.kill(role.pid, signal.SIGKILL)
    again = eventually(lambda: _standing(worker(layout), role.pid), ("running", 1, True))
    assert again == ("running", 1, True)


def _standing(role: RoleLine, before: int | None) -> tuple[str, int, bool]:
    """How a role stands, and whether another process runs as it."""
    return role.state, role.restarts, role.pid not in (None, before)


def test_what_was_declared_while_the_supervisor_died_is_done_by_the_next(
    layout: BackendLayout, tmp_path: Path
) -> None:
    applied(layout, tmp_path)
    client = LocalClient(layout)
    assert main(["delete", "dataset", "shop", "--no-wait"]) == 0
    backends.kill(client)
    assert main(["up"]) == 0
    assert main(["wait", "--for=delete", "dataset/shop"]) == 0
    assert client.status().roles == ()


def test_down_ends_what_serves(layout: BackendLayout, tmp_path: Path) -> None:
    role = applied(layout, tmp_path)
    assert main(["down"]) == 0
    assert started_ticks(role.pid) is None
    assert not layout.folder.exists()
