"""The help of the command `headrace` itself: every verb and its line, written without the reader of options."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Mapping

from headrace.cli import printer
from headrace.cli.verbs import VERBS

PURPOSE = "A bucket as fast local files: mount it, warm it, train from it."
OPTIONS: Mapping[str, str] = {
    "--version": "Show the version and end.",
    "-h, --help": "Show this message and exit.",
}
LONGEST_LINE = 110


def show() -> None:
    """Writes it as wide as the terminal is."""
    printer.data(text(shutil.get_terminal_size().columns))


def text(columns: int) -> str:
    """The help in lines of so many columns, within what can be read."""
    width = max(40, min(columns - 2, LONGEST_LINE))
    parts = [
        "Usage: headrace [OPTIONS] COMMAND [ARGS]...",
        f"  {PURPOSE}",
        "Options:",
        *_rows(OPTIONS, width),
    ]
    summaries = {name: verb.summary for name, verb in VERBS.items()}
    lines = [parts[0], "", parts[1], "", *parts[2:], "", "Commands:", *_rows(summaries, width)]
    return "\n".join([*lines, "", "Each has its own: headrace COMMAND --help"])


def _rows(meanings: Mapping[str, str], width: int) -> Iterator[str]:
    column = max(map(len, meanings)) + 4
    for word, meaning in meanings.items():
        first, *others = textwrap.wrap(meaning, width - column, break_long_words=False)
        yield f"  {word.ljust(column - 2)}{first}"
        yield from (" " * column + line for line in others)
