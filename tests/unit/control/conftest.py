from __future__ import annotations

from types import SimpleNamespace

import cluster_double
import pytest

from headrace.engine import native


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The double of a master's engine in place of the native module."""
    made = cluster_double.make_module()
    monkeypatch.setattr(native, "load", lambda: made)
    return made
