"""How many examples a property is tried with, where each of them is a long story."""

from __future__ import annotations

import os


def examples(some: int, *, in_a_soak: int) -> int:
    """`make test` tries `some`, the same each time; `make soak` others each time, and more of them."""
    return in_a_soak if "SOAK_MINUTES" in os.environ else some
