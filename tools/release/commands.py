"""Programs that a release is made with: started, awaited, and their failure told with the end of what they said."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_LAST_LINES = 20


class ReleaseError(Exception):
    """A part of a release that could not be made: what, and what to do."""


def output_of(
    command: Sequence[str | Path], *, folder: Path, environment: Mapping[str, str] | None = None
) -> str:
    """What a program writes to its standard output. Raises `ReleaseError` when it fails or is not there."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, errors="replace", check=False
        )
    except FileNotFoundError:
        raise ReleaseError(f"{words[0]} is not installed") from None
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-_LAST_LINES:])
        raise ReleaseError(f"`{' '.join(words[:4])} …` ended with {done.returncode}:\n{said}")
    return done.stdout
