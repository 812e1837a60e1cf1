"""What a node of the test cluster tells of the programs on it."""

from __future__ import annotations

import os
import socket

import pytest

from headrace.testing.kubernetes.node import listens


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_port_listens_from_listen_to_close_and_not_when_it_is_only_bound(
    family: socket.AddressFamily,
) -> None:
    with socket.socket(family) as listener:
        listener.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        port = listener.getsockname()[1]
        assert not listens(os.getpid(), port)
        listener.listen()
        assert listens(os.getpid(), port)
    assert not listens(os.getpid(), port)
