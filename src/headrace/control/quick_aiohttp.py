"""Loads `aiohttp` without the authorities of this machine; to be imported before it."""

from __future__ import annotations

from headrace.process.authorities import Unread

with Unread():
    import aiohttp

__all__ = ["aiohttp"]
