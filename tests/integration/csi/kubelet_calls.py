"""Calls of the CSI driver as a kubelet makes them, and how they may fail."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from integration.nodes import Node


@contextlib.contextmanager
def refused(code: grpc.StatusCode) -> Iterator[None]:
    with pytest.raises(grpc.RpcError) as caught:
        yield
    assert caught.value.code() is code, caught.value.details()
    assert "Traceback" not in caught.value.details()


def publish_in_vain(node: Node, target: Path, **changes: object) -> None:
    """What it waits for does not come, which is said in time; a busy machine may be later, and is asked again."""
    late = (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.ABORTED)
    for _ in range(10):
        with pytest.raises(grpc.RpcError) as caught:
            node.publish(target, timeout_s=3, **changes)
        if caught.value.code() not in late:
            break
        time.sleep(1)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE, caught.value.details()
    assert "Traceback" not in caught.value.details()


def publish_as_a_kubelet_does(node: Node, target: Path, **changes: object) -> None:
    """Again while another call is at the same place: the test asks there until this one is."""
    while True:
        try:
            node.publish(target, timeout_s=60, **changes)
            break
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.ABORTED:
                raise
        time.sleep(0.01)


def is_aborted(node: Node, target: Path, volume_id: str = "data") -> bool:
    """Whether taking the volume away is refused because another call for it is under way."""
    try:
        node.unpublish(target, volume_id)
    except grpc.RpcError as error:
        return bool(error.code() == grpc.StatusCode.ABORTED)
    return False
