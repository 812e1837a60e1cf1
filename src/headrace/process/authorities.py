"""The certificate authorities of this machine, which `aiohttp` reads twice while it is imported.

It reads them for contexts that serve whoever names none. Every program of ours names its own, and only where it speaks
TLS; they would cost each of them 40 ms of processor time at its start (Debian's 146 authorities).
"""

from __future__ import annotations

import sys

_process = {"is_ours": False}


def are_named_by_us() -> None:
    """Says that this process is a program of ours. For programs: it is for the whole process."""
    _process["is_ours"] = True


# No `contextlib`: the smallest programs of ours load nothing.
class Unread:
    """In a program of ours, contexts that are made in its block believe nobody. For an import, before any thread."""

    def __init__(self) -> None:
        self._is_on = _process["is_ours"] and "aiohttp" not in sys.modules

    def __enter__(self) -> None:
        if self._is_on:
            import ssl  # noqa: PLC0415 - where it is needed

            ssl.SSLContext.set_default_verify_paths = _believe_nobody  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        if self._is_on:
            import ssl  # noqa: PLC0415 - where it is needed

            # The class has none of its own: what it inherits is back when this is gone.
            del ssl.SSLContext.set_default_verify_paths


def _believe_nobody(self: object) -> None:
    """Instead of reading the authorities of this machine."""
