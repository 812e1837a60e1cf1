"""Asks a master something from a command: one connection, one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from pydantic import SecretStr

if TYPE_CHECKING:
    from headrace.control.client import ControlClient

_T = TypeVar("_T")


def ask_master(
    master: str, token: SecretStr | None, question: Callable[[ControlClient], Awaitable[_T]]
) -> _T:
    """The answer; Ctrl-C comes through as `KeyboardInterrupt`."""

    # Here, since most commands have no need of an HTTP client, whose import takes its time.
    from headrace.control.client import ControlClient  # noqa: PLC0415

    async def ask() -> _T:
        async with ControlClient(master, token) as client:
            return await question(client)

    return asyncio.run(ask())
