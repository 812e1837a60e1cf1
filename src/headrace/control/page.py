"""The web page of the master: one file, served as it is, that may load nothing and run nothing but its own script."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Mapping
from importlib.resources import files

_PART = {
    "script-src": re.compile(r"<script>(.*?)</script>", re.DOTALL),
    "style-src": re.compile(r"<style>(.*?)</style>", re.DOTALL),
}


@functools.cache
def page_bytes() -> bytes:
    """The page."""
    return files("headrace.control").joinpath("page.html").read_bytes()


def _policy() -> str:
    """What the browser lets the page do: its own script and style by their hashes, and questions to its own server."""
    text = page_bytes().decode("utf-8")
    allowed = [
        "default-src 'none'",
        "connect-src 'self'",
        "img-src data:",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    for directive, pattern in _PART.items():
        hashes = " ".join(f"'sha256-{_hash(part)}'" for part in pattern.findall(text))
        allowed.append(f"{directive} {hashes}")
    return "; ".join([*allowed, "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"])


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


PAGE_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _policy(),
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
"""What goes with the page."""
