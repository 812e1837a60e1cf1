"""Output of the commands on jobs: Arena's lines of information, faults one by one, documents in their forms."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

from headrace.cli import printer
from headrace.errors import ConfigError
from headrace.exits import ExitCode
from headrace.settings.yaml_streams import write_stream

_BEGUN = time.monotonic()
_FORMS = ("wide", "json", "yaml")


class Told(Exception):  # noqa: N818 - all that is to be said was said
    """The command ends with a code of `headrace`; its faults were told one by one."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def info(text: str) -> None:
    """`INFO[0010] The Job … has been submitted successfully`: seconds since the command began, on standard error."""
    printer.say(f"INFO[{int(time.monotonic() - _BEGUN):04d}] {text}")


def refuse(faults: Sequence[str]) -> None:
    """Tells every fault and ends the command, if there is one. Raises `Told`."""
    for fault in faults:
        printer.say(f"error: {' '.join(fault.split())}")
    if faults:
        raise Told(int(ExitCode.CONFIG))


def notice(sentences: Iterable[str]) -> None:
    """Prints a fact that a person should know, and need not act on."""
    for sentence in sentences:
        printer.say(f"notice: {' '.join(sentence.split())}")


def check_form(output: str) -> str:
    """The form that is asked for; empty: the table. Raises `ConfigError`."""
    if output and output not in _FORMS:
        raise ConfigError.of(f"-o {output[:32]} is not a format", hint=f"known are {', '.join(_FORMS)}")
    return output


def document(value: Any, form: str) -> None:
    """Prints a value as JSON or YAML."""
    printer.data(
        json.dumps(value, indent=4, ensure_ascii=False)
        if form == "json"
        else write_stream(value if isinstance(value, list) and form == "yaml-stream" else [value]).rstrip(
            "\n"
        )
    )
