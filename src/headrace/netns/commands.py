"""Runs `ip` and `tc`: what they print, or their own words as an error."""

from __future__ import annotations

import subprocess


class CommandError(RuntimeError):
    """A command failed; the message holds its words."""


def run_command(*command: str) -> str:
    """The output of the command; `CommandError` with its own words when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CommandError(f"`{command[0]}` is not installed (Debian has it in iproute2)") from None
    if done.returncode != 0:
        raise CommandError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout


def try_command(*command: str) -> None:
    """Runs a command whose failure means that there is nothing to do."""
    subprocess.run(command, capture_output=True, check=False)
