"""The person who starts a role, as the checks before its start see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.engine.secrets import Ask


@dataclass(frozen=True, slots=True)
class Terminal:
    """The ways to tell a person something, to warn them, and to ask them for a credential."""

    say: Callable[[str], None]
    warn: Callable[[str], None]
    ask: Ask | None = None
    """`None` where nobody could answer."""
