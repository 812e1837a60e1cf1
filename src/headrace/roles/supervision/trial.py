"""The trial whether the installed release would start, before a running mount depends on it."""

from __future__ import annotations

import subprocess

from headrace.roles.supervision.child import PYTHON

_TRIAL = (
    *PYTHON,
    "-c",
    "import headrace.roles.supervision.supervisor, headrace.roles.processes.mount, headrace._native",
)
_DEADLINE_S = 60


def fault_of_installed() -> str | None:
    """The fault that keeps the installed program from starting; `None` when there is none."""
    try:
        done = subprocess.run(_TRIAL, capture_output=True, text=True, check=False, timeout=_DEADLINE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = done.stderr.strip().splitlines()
    return None if done.returncode == 0 else (lines[-1] if lines else f"code {done.returncode}")
