"""Objects as they leave the store: a Secret's values as stars, unless somebody asks for them by name.

kubectl prints them in base64, which hides them from nobody: what `get -o yaml` prints ends up in issues, chats and logs
of CI. So a person has to say that values are wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.local.store.records import Record

REDACTED = "**********"
_VALUES = ("data", "stringData")


def redacted(what: Record | Mapping[str, Any], *, reveal_secrets: bool = False) -> dict[str, Any]:
    """The object as plain values."""
    document = what.document() if isinstance(what, Record) else dict(what)
    if document["kind"] != "Secret" or reveal_secrets:
        return document
    return {
        key: dict.fromkeys(value, REDACTED) if key in _VALUES and isinstance(value, Mapping) else value
        for key, value in document.items()
    }
