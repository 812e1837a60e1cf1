"""What lies in a node's folder is for the pods that it is given to, and for no other user of the node."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.csi.node_folder import NodeFolder
from headrace.errors import RefusedError

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")]

STRANGER = 65534


@pytest.fixture
def node() -> Iterator[NodeFolder]:
    """A folder that every user of the node can reach, as kubelet made it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield NodeFolder(Path(folder))


def can_read(path: Path) -> bool:
    """Whether another user can."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(STRANGER)
            os.setuid(STRANGER)
            path.read_bytes()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_another_user_of_the_node_reads_no_mount_and_no_state(node: NodeFolder) -> None:
    mounted = Path(node.mountpoint("team/secret")) / "data"
    listed = node.path / "state" / "team" / "secret" / "snapshot"
    for path in (mounted, listed):
        path.parent.mkdir(parents=True)
        path.write_text("for the pods of the team")
    assert can_read(mounted)
    assert can_read(listed)
    node.close_to_others()
    assert not can_read(mounted)
    assert not can_read(listed)


def test_who_has_a_folder_of_it_by_another_way_still_reads(node: NodeFolder) -> None:
    """As a bind mount does, which begins at the mount itself."""
    mountpoint = Path(node.mountpoint("team/data"))
    mountpoint.mkdir(parents=True)
    (mountpoint / "data").write_text("for the pods of the team")
    node.close_to_others()
    descriptor = os.open(mountpoint, os.O_PATH)
    try:
        assert can_read(Path(f"/dev/fd/{descriptor}/data"))
    finally:
        os.close(descriptor)


def test_a_folder_that_another_user_put_there_is_refused(node: NodeFolder) -> None:
    mounts = node.path / "mounts"
    mounts.mkdir()
    os.chown(mounts, STRANGER, STRANGER)
    with pytest.raises(RefusedError, match="belongs to user 65534"):
        node.close_to_others()
