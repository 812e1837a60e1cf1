"""A child process known only by its pid, with the methods of `subprocess.Popen` that the supervisor uses."""

from __future__ import annotations

import os
import signal


class CopiedProcess:
    """A child process, with the methods of `subprocess.Popen` that a supervisor uses. Its number is not given away
    before `wait`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def wait(self) -> int:
        """Waits for its end: the exit code, or less than 0 the signal that ended it."""
        try:
            _, status = os.waitpid(self.pid, 0)
        except ChildProcessError:
            # Whoever called us has the kernel forget how children end.
            return 0
        return os.waitstatus_to_exitcode(status)

    def send_signal(self, number: int) -> None:
        """Sends it a signal."""
        os.kill(self.pid, number)

    def terminate(self) -> None:
        """Tells it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it."""
        self.send_signal(signal.SIGKILL)
