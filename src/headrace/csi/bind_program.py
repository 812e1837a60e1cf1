"""Binds a folder of a mount to another place: a program of its own, since the mount may be silent (see
`roles.mountpoint.apart`).

Arguments: mountpoint, path below it (may be empty), target, `noexec` or nothing. The files at the target are read-only
from the first moment, and in a peer group of their own: a mount that is bound over them later appears in all pods that
have them, and nowhere else. The exit code is the errno of what failed. Knows the standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from pathlib import Path

_KIND = "fuse.headrace"
# These calls have the same number on every architecture.
_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 437, 442
_AT_EMPTY_PATH, _AT_FDCWD = 0x1000, -100
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_RESOLVE_NO_XDEV, _RESOLVE_NO_MAGICLINKS, _RESOLVE_BENEATH = 0x01, 0x02, 0x08
_RDONLY, _NOSUID, _NODEV, _NOEXEC = 0x01, 0x02, 0x04, 0x08
_MS_PRIVATE, _MS_SHARED = 1 << 18, 1 << 20
_libc = ctypes.CDLL(None, use_errno=True)


def attach(mountpoint: str, below: str, target: str, *, noexec: bool) -> None:
    """Binds `mountpoint`/`below` to the folder `target`, over whatever is there. Raises `OSError`.

    Links on the way below are followed as long as they stay below; one that leads out is EXDEV.
    """
    root = os.open(mountpoint, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    if not _is_ours(root):
        raise OSError(errno.ENOTCONN, "the mount is gone")
    tree = _clone(_open_below(root, below) if below else root)
    attributes = _RDONLY | _NOSUID | _NODEV | (_NOEXEC if noexec else 0)
    # Out of the peer group of the mount itself, and then one of its own.
    _set(tree, attributes, _MS_PRIVATE)
    _set(tree, 0, _MS_SHARED)
    words = (tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
    _call(_MOVE_MOUNT, *words)


def _is_ours(descriptor: int) -> bool:
    """Whether a descriptor lies in a mount of ours, and not in the folder below one that has just gone."""
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text("ascii").splitlines()
    number = next(line.split()[1] for line in lines if line.startswith("mnt_id:"))
    for line in Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines():
        words = line.split()
        if words[0] == number:
            return words[words.index("-", 6) + 1] == _KIND
    return False


def _open_below(root: int, path: str) -> int:
    how = struct.pack(
        "=QQQ",
        os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC,
        0,
        _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_XDEV,
    )
    return _call(_OPENAT2, root, os.fsencode(path), how, len(how))


def _clone(descriptor: int) -> int:
    return _call(_OPEN_TREE, descriptor, b"", _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_EMPTY_PATH)


def _set(tree: int, attributes: int, propagation: int) -> None:
    wanted = struct.pack("=QQQQ", attributes, 0, propagation, 0)
    _call(_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, wanted, len(wanted))


def _call(number: int, *words: int | bytes) -> int:
    plain = [ctypes.c_long(word) if isinstance(word, int) else word for word in words]
    result: int = _libc.syscall(ctypes.c_long(number), *plain)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def main(arguments: list[str]) -> int:
    """The errno of what failed, 0 when nothing did."""
    mountpoint, below, target, *flags = arguments
    try:
        attach(mountpoint, below, target, noexec="noexec" in flags)
    except OSError as error:
        return error.errno or errno.EIO
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
