"""`headrace version`."""

from __future__ import annotations

from headrace import provenance
from headrace.cli import printer
from headrace.engine import native
from headrace.errors import EngineError

_SHOWN_DIGITS = 12


def run() -> None:
    """Show the version of Headrace, the commit that it was built from, and the version of its engine."""
    try:
        engine = native.version()
    except EngineError:
        engine = "not built"
    details = [f"commit {_shown(commit)}"] if (commit := provenance.commit()) else []
    printer.data(f"headrace {provenance.version()} ({', '.join([*details, f'engine {engine}'])})")


def _shown(commit: str) -> str:
    digits, mark, rest = commit.partition("-")
    return digits[:_SHOWN_DIGITS] + mark + rest
