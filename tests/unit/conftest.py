from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import native_double
import pytest

from headrace.engine import native


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
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The native module's double in place of the module."""
    module = native_double.make_module()
    monkeypatch.setattr(native, "load", lambda: module)
    yield module


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A small origin: three files in two folders."""
    root = tmp_path / "data"
    (root / "train" / "a").mkdir(parents=True)
    (root / "train" / "one.jpg").write_bytes(b"first")
    (root / "train" / "a" / "two.jpg").write_bytes(b"second image")
    (root / "readme.txt").write_bytes(b"")
    return root
