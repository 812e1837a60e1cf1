"""Starts a supervisor where nobody looks after a backend any more: its supervisor and its guard were killed at once.

The supervisors of mounts and the service of systemd notice that, and start this program. Here it is checked, one
process at a time, whether it is to be done: not after a `headrace down`, not twice, and in nobody's folder but our own.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import sys
import time
from importlib import metadata
from pathlib import Path

from headrace.errors import BusyError, HeadraceError, RefusedError
from headrace.exits import exit_code
from headrace.local.layout import BackendLayout
from headrace.local.lifecycle import launch
from headrace.local.lifecycle.backend_lock import is_owned, restarting
from headrace.local.nodes.nsenter import enter_network_number, network
from headrace.local.protocol.messages import NodesWish, SupervisorSpec
from headrace.local.store.database import is_there
from headrace.roles.logs import start_python_log
from headrace.settings.environment import Environment
from headrace.trusted_folders import check_folder, open_file

_log = logging.getLogger("headrace.local")

_AT_MOST_EVERY_S = 5.0


def note_home(layout: BackendLayout) -> None:
    """Notes where a supervisor runs, so that the next one is not started in the network of a node."""
    layout.home_network.write_text(str(network()), encoding="ascii")


def revive(layout: BackendLayout, environment: Environment) -> bool:
    """Starts a supervisor if nobody looks after the backend and nobody took it down; whether it did.

    Raises `RefusedError` for a folder that others could change, and what kept a supervisor from starting.
    """
    _check_ours(layout.folder)
    if not is_there(layout.database):
        return False
    with restarting(layout):
        is_wanted = is_there(layout.database) and not layout.taken_down.exists() and not is_owned(layout)
        if not is_wanted or _was_tried_just_now(layout):
            return False
        layout.revived.touch()
        _go_home(layout)
        _log.warning("nobody looks after the backend: supervisor and guard were killed; starting it anew")
        spec = SupervisorSpec(
            folder=layout.folder, nodes=NodesWish(), release=metadata.version("headrace"), idle=False
        )
        # Somebody may have called `headrace up` meanwhile.
        with contextlib.suppress(BusyError):
            launch.start_supervisor(spec, environment)
    return True


def _check_ours(folder: Path) -> None:
    """What is started by a folder's content is to be in nobody's hands but ours."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
    if not is_ours:
        raise RefusedError.of(
            f"{folder} is no folder that this user alone may change", hint="start it with `headrace up`"
        )
    check_folder(folder)


def _was_tried_just_now(layout: BackendLayout) -> bool:
    """All mounts of a machine notice at the same time, and what fails would fail for each of them."""
    with contextlib.suppress(FileNotFoundError):
        return 0 <= time.time() - layout.revived.stat().st_mtime < _AT_MOST_EVERY_S
    return False


def _go_home(layout: BackendLayout) -> None:
    with contextlib.suppress(FileNotFoundError, ValueError):
        enter_network_number(int(layout.home_network.read_text(encoding="ascii")))


def main(arguments: list[str]) -> int:
    """`FOLDER`: for supervisors of mounts, not for people. Faults are in the backend's log."""
    layout = BackendLayout(Path(arguments[0]))
    try:
        _check_ours(layout.folder)
        if not is_there(layout.database):
            return 0
        _tell_in(layout.log)
        start_python_log("info")
        revive(layout, Environment.current())
    except HeadraceError as error:
        _log.error("the backend cannot be started anew: %s", error)
        return int(exit_code(error))
    return 0


def _tell_in(log: Path) -> None:
    descriptor = open_file(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(descriptor, number)
    os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
