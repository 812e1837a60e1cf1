"""The process of the service: has the backend started again whenever nobody looks after it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from headrace.local.layout import BackendLayout
from headrace.roles.supervision.backend_watch import BackendWatch
from headrace.settings.environment import Environment

_LOOK_EVERY_S = 2.0


def main(arguments: list[str]) -> int:
    """`FOLDER`: for systemd, not for people. Ends when it is told to."""
    layout = BackendLayout(Path(arguments[0]))
    watch = BackendWatch(layout.lock, Environment.current().variables)
    while True:
        watch.look()
        time.sleep(_LOOK_EVERY_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
