"""The terminal of a command, for the checks before a role starts."""

from __future__ import annotations

import importlib
import sys

from headrace.cli import printer
from headrace.roles.specs.terminal import Terminal


def terminal() -> Terminal:
    """The person who called this command; asked only where standard input is a terminal."""
    return Terminal(printer.say, printer.warn, _ask if sys.stdin.isatty() else None)


def _ask(name: str) -> str:
    # Options are loaded when somebody is asked: a role from its file alone has no need of them.
    answer: str = importlib.import_module("headrace.cli.options").ask(name)
    return answer
