"""What jobs under Open MPI say, without what it says by itself."""

from __future__ import annotations

# When a child that it started was faster than itself, and when a user has no shell.
WARNINGS = ("plm:rsh: Warning: setpgid", "local probe")


def without_warnings(log: str) -> str:
    """A job's log without these lines."""
    lines = log.splitlines(keepends=True)
    return "".join(line for line in lines if not any(warning in line for warning in WARNINGS))
