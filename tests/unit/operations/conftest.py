from __future__ import annotations

import pytest
from operator_context import OperatorWorld


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> OperatorWorld:
    """An operator on a cluster of four nodes."""
    return OperatorWorld(monkeypatch)
