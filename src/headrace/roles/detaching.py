"""Taking a dead mount off its folder, with as little as possible: the supervisor does it when nothing else helps."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_DEADLINE_S = 10
_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPES = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))


def device_at(mountpoint: str) -> str | None:
    """`major:minor` of what is mounted on top at `mountpoint`; `None` when nothing is. Does not touch the mount."""
    found = None
    with _MOUNTS.open(encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            words = line.split()
            if _unescape(words[4]) == mountpoint:
                found = words[2]
    return found


def mountpoints_below(folder: str) -> list[str]:
    """What is mounted at `folder` and below it. Does not touch the mounts."""
    with _MOUNTS.open(encoding="utf-8", errors="surrogateescape") as lines:
        found = [_unescape(line.split()[4]) for line in lines]
    return [each for each in found if each == folder or each.startswith(f"{folder.rstrip('/')}/")]


def detach_commands(mountpoint: str, *, lazy: bool, force: bool = False) -> list[list[str]]:
    """What to try, in order, to take `mountpoint` off."""
    as_root = [["umount", "-f", mountpoint]] if force else []
    as_root.append(["umount", *(["-l"] if lazy or force else []), mountpoint])
    as_user = [["fusermount3", "-u", *(["-z"] if lazy or force else []), "--", mountpoint]]
    return as_root if os.geteuid() == 0 else as_user


def detach(mountpoint: str, device: str) -> bool:
    """Takes the mount `device` off `mountpoint`, now; true when it is off afterwards."""
    for command in detach_commands(mountpoint, lazy=True):
        if device_at(mountpoint) != device:
            return True
        try:
            subprocess.run(command, capture_output=True, check=False, timeout=_DEADLINE_S)
        except (OSError, subprocess.TimeoutExpired):
            continue
    return device_at(mountpoint) != device


def abort(device: str) -> bool:
    """Ends the connection behind the mount `device` by the kernel's own switch, whoever holds it."""
    switch = Path("/sys/fs/fuse/connections", device.partition(":")[2], "abort")
    try:
        switch.write_text("1", encoding="ascii")
    except OSError:
        return False
    return True


def _unescape(text: str) -> str:
    for code, character in _ESCAPES:
        text = text.replace(code, character)
    return text
