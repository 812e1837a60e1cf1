"""The origin of an installation: the version, and the commit of its sources where that is known."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

COMMIT_FILE = "COMMIT"
"""In the package of a release: the commit that it was built from (`make release` writes it)."""
_TIMEOUT_S = 10.0


def version() -> str:
    """The version of the package."""
    return metadata.version("headrace")


def commit() -> str | None:
    """The commit, in forty digits: of a release, or of the checkout that the package is run from. `-dirty` behind it
    tells of files that differ from it.
    """
    package = Path(__file__).parent
    return released_commit(package) or checked_out_commit(package.parents[1])


def released_commit(package: Path) -> str | None:
    """The commit that a release noted in the folder of its package."""
    try:
        return _commit_of((package / COMMIT_FILE).read_text("ascii"))
    except (OSError, ValueError):
        return None


def checked_out_commit(checkout: Path) -> str | None:
    """The commit of a checkout, if it is one that git knows and will speak of."""
    if not (checkout / ".git").exists() or not (checkout / "pyproject.toml").is_file():
        return None
    import subprocess  # noqa: PLC0415 - of a checkout alone

    # No tag: what follows is the commit alone.
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return _commit_of(done.stdout)


def _commit_of(text: str) -> str | None:
    word = text.strip()
    return word if re.fullmatch(r"[0-9a-f]{40}(-dirty)?", word) else None
