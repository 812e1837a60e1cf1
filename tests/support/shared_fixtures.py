"""What tests of one process share: an environment that has nothing of the developer's, and a small origin."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def private_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees the developer's variables, configuration or mounts."""
    for name in list(os.environ):
        if name.startswith(("HEADRACE_", "AWS_", "OSS_", "ALIBABA_", "XDG_")):
            monkeypatch.delenv(name)
    private = tmp_path / "private"
    monkeypatch.setenv("HOME", str(private))
    monkeypatch.setenv("HEADRACE_RUNTIME_DIR", str(private / "run"))
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(private / "state"))
    monkeypatch.setenv("HEADRACE_CONFIG", "")
    return private


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A small origin: three files in two folders."""
    root = tmp_path / "data"
    (root / "train" / "a").mkdir(parents=True)
    (root / "train" / "one.jpg").write_bytes(b"first")
    (root / "train" / "a" / "two.jpg").write_bytes(b"second image")
    (root / "readme.txt").write_bytes(b"")
    return root
