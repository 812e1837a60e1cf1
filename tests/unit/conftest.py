from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import native_double
import pytest
from shared_fixtures import data, private_environment

from headrace.engine import native

__all__ = ["data", "double", "private_environment"]


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The native module's double in place of the module."""
    module = native_double.make_module()
    monkeypatch.setattr(native, "load", lambda: module)
    yield module
