"""`headrace version`."""

from __future__ import annotations

from importlib import metadata

from headrace.cli import printer
from headrace.engine import native
from headrace.errors import EngineError


def run() -> None:
    """Show the versions of Headrace and of its engine."""
    try:
        engine = native.version()
    except EngineError:
        engine = "not built"
    printer.data(f"headrace {metadata.version('headrace')} (engine {engine})")
