"""Standard streams of a command that was started without some of them."""

from __future__ import annotations

import os
import sys

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def complete_streams() -> None:
    """Opens what is missing as /dev/null: nothing that is opened later gets its number, and is written into."""
    for name, mode in _STREAMS:
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115, PTH123 - until the process ends
            setattr(sys, name, stream)
