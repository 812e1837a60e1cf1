"""A mount that has ended is left alone: the kernel may have given its number to another one."""

from __future__ import annotations

import json
import os

import pytest

from headrace.roles.keeper import keeping
from headrace.roles.keeper.keeping import Kept
from headrace.roles.mountpoint.mount_table import MountEntry


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


@pytest.mark.parametrize(
    ("source", "device"),
    [("/state/headrace.erofs", "0:51"), ("/other/headrace.erofs", "0:39")],
    ids=["its own", "another one's"],
)
def test_a_view_is_taken_off_with_the_list_that_it_shows_by_now(
    monkeypatch: pytest.MonkeyPatch, source: str, device: str
) -> None:
    there = MountEntry(9, "0:51", "/mnt", "erofs", source)
    detached: list[str] = []
    monkeypatch.setattr(keeping, "abort", lambda _: True)
    monkeypatch.setattr(keeping, "mount_at", lambda _: there)
    monkeypatch.setattr(keeping, "detach", lambda _, device, *, force: not detached.append(device))
    words = json.dumps({"connection": "0:40", "source": "/state/headrace.erofs"})
    connection, apart = os.pipe()
    kept = Kept(words, connection, -1, "data", "/mnt", "0:39", None, apart)
    assert kept.let_go()
    assert detached == [device]
    for closed in (connection, apart):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(closed)


def test_what_is_sent_is_what_is_received() -> None:
    for apart in (None, 7):
        kept = Kept("{}", 5, 6, "data", "/mnt", "0:39", "/log", apart)
        assert Kept.received(kept.facts, kept.descriptors) == kept
