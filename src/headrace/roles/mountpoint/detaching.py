"""Taking a dead mount off its folder, with as little as possible: the supervisor does it when nothing else helps."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from headrace.roles.mountpoint.mount_table import mount_at, mounts

_DEADLINE_S = 10
_SWITCHES = Path("/sys/fs/fuse/connections")


def device_at(mountpoint: str) -> str | None:
    """`major:minor` of what is mounted on top at `mountpoint`; `None` when nothing is. Does not touch the mount."""
    entry = mount_at(mountpoint)
    return None if entry is None else entry.device


def mountpoints_below(folder: str) -> list[str]:
    """The mounts at `folder` and below it. Does not touch the mounts."""
    found = [entry.path for entry in mounts()]
    return [each for each in found if each == folder or each.startswith(f"{folder.rstrip('/')}/")]


def detach_commands(mountpoint: str, *, lazy: bool, force: bool = False) -> list[list[str]]:
    """The commands to try, in order, to take `mountpoint` off."""
    as_root = [["umount", "-f", mountpoint]] if force else []
    # Without "-c" it looks at the mountpoint first, and a mount whose process stands still does not answer.
    as_root.append(["umount", "-l" if lazy or force else "-c", mountpoint])
    as_user = [["fusermount3", "-u", *(["-z"] if lazy or force else []), "--", mountpoint]]
    return as_root if os.geteuid() == 0 else as_user


def detach(mountpoint: str, device: str, *, force: bool = False) -> bool:
    """Takes the mount `device` off `mountpoint`, now; true when it is off afterwards. `force` ends its connection."""
    for command in detach_commands(mountpoint, lazy=True, force=force):
        if device_at(mountpoint) != device:
            return True
        try:
            subprocess.run(command, capture_output=True, check=False, timeout=_DEADLINE_S)
        except (OSError, subprocess.TimeoutExpired):
            continue
    return device_at(mountpoint) != device


def abort(device: str) -> bool:
    """Ends the connection behind the mount `device` by the kernel's own switch, whoever holds it."""
    switch = _SWITCHES / device.partition(":")[2] / "abort"
    try:
        switch.write_text("1", encoding="ascii")
    except FileNotFoundError:
        return os.geteuid() == 0 and _abort_apart(switch)
    except OSError:
        return False
    return True


def abort_command(device: str) -> str:
    """The command by which root ends the connection behind the mount `device`, whoever holds it."""
    switch = _SWITCHES / device.partition(":")[2] / "abort"
    shown = "" if switch.exists() else f"mount -t fusectl fusectl {_SWITCHES} && "
    return f"{shown}echo 1 >{switch}"


def _abort_apart(switch: Path) -> bool:
    """The same where the switches are not shown, as on machines without systemd: a namespace of its own shows them."""
    script = f'mount -t fusectl fusectl {_SWITCHES} && echo 1 >"$0"'
    command = ["unshare", "--mount", "sh", "-c", script, str(switch)]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_DEADLINE_S)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
