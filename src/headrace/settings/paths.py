"""Paths as people write them."""

from __future__ import annotations

import os
from pathlib import Path


def absolute(text: str | os.PathLike[str], *, below: Path | None = None) -> Path:
    """An absolute path with `~` expanded, relative ones taken from `below` or the current folder. Links stay links."""
    # Unlike Path.expanduser, this one leaves the `~` of an unknown user alone instead of raising.
    expanded = os.path.expanduser(text)  # noqa: PTH111
    return (below or Path.cwd()) / expanded
