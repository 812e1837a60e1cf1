"""A mount that has ended is left alone: the kernel may have given its number to another one."""

from __future__ import annotations

import os

import pytest

from headrace.roles import keeping
from headrace.roles.keeping import Kept


@pytest.mark.parametrize("has_ended", [False, True])
def test_only_a_connection_that_lives_is_ended_by_its_number(
    monkeypatch: pytest.MonkeyPatch, has_ended: bool
) -> None:
    aborted: list[str] = []
    monkeypatch.setattr(keeping, "abort", lambda device: not aborted.append(device))
    # Says what /dev/fuse says once the kernel has ended the connection: that there is nobody at the other end.
    connection, kernel = os.pipe()
    try:
        kept = Kept("{}", connection, -1, "data", "/none-such", "0:39", None)
        if has_ended:
            os.close(kernel)
        assert kept.abort()
        assert aborted == ([] if has_ended else ["0:39"])
    finally:
        os.close(connection)
        if not has_ended:
            os.close(kernel)
