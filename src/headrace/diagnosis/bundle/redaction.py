"""The content of a bundle without credentials: those that are known here, and all that look like some.

Rather a word too many is starred than one too few. Names of Secrets and of files stay, since they hold nothing.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from headrace.local.store.redaction import REDACTED, redacted
from headrace.settings.origin_options import is_secret

_SHORTEST = 6
"""Known values that are shorter would star half of the text; what they are the values of is starred by its name."""

_KEYWORDS = (
    r"secret|token|passw|pwd|access[_.\-]?key|private[_.\-]?key|api[_.\-]?key|credential|authorization|signature"
    r"|cookie|delegation"
)
# From the begin of a word, and of bounded length behind: a long line of a stranger shall take no time.
_NAME = rf"(?<![\w.\-])[\w.\-]*(?:{_KEYWORDS})[\w.\-]{{0,64}}"
_FLAG = rf"(?<![\w.\-])-[\w.\-]*(?:{_KEYWORDS})[\w.\-]{{0,64}}"
_INNOCENT = re.compile(
    r"(?i)(?:name|names|ref|file|files|path|folder|directory|namespace|type|kind|count|ttl|_s|seconds|_total|bytes)$"
)
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S),
        REDACTED,
    ),
    # Without its end or its begin as well: a log may have been cut within it.
    (re.compile(r"\A(?:(?!-----BEGIN ).)*?-----END [A-Z ]*PRIVATE KEY-----", re.S), REDACTED),
    (re.compile(r"://[^\s/@\"'<>]{1,1024}@"), f"://{REDACTED}@"),
    (re.compile(r"(?im)^(.*?\b(?:proxy-)?authorization\b\\?[\"']?\s*[:=]\s*).*$"), rf"\1{REDACTED}"),
    (re.compile(r"(?im)^(.*?\b(?:set-)?cookie\b\\?[\"']?\s*:\s*).*$"), rf"\1{REDACTED}"),
    # Where API servers ask the webhook, which nobody else is to know.
    (re.compile(r"(?i)(/pods/)[0-9a-f]{32}(?![0-9a-f\-])"), rf"\1{REDACTED}"),
    (re.compile(r"(?i)\b(bearer|basic|negotiate|digest)\s+[A-Za-z0-9+/=._~\-]{8,}"), rf"\1 {REDACTED}"),
    (re.compile(r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]+(?:\.[A-Za-z0-9_\-]*)?"), REDACTED),
    (re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b"), REDACTED),
    (re.compile(r"\b(?:LTAI|STS\.)[A-Za-z0-9]{10,}\b"), REDACTED),
    (
        re.compile(
            r"(?i)([?&](?:x-amz-[a-z\-]+|x-oss-[a-z\-]+|sig|sign|key|auth|ossaccesskeyid|awsaccesskeyid)=)[^\s&\"'<>]+"
        ),
        rf"\1{REDACTED}",
    ),
)
_PAIR = re.compile(
    rf"(?i)(?P<name>{_NAME})(?P<between>\\?[\"']?\s*(?:=>|[:=])\s*)(?P<value>\\?\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s,;&}}\])]+)"
)
_WORD = re.compile(rf"(?i)(?P<name>{_FLAG})(?P<between>[ =]+)(?P<value>[^\s\-][^\s]*)")


class Redactor:
    """Stars out of texts and objects. `known` are credentials of this machine, in clear."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        forms = {form for value in known if len(value) >= _SHORTEST for form in _forms(value)}
        # The longest first: one may hold another.
        alternatives = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
        self._known = re.compile(alternatives) if alternatives else None

    def text(self, text: str) -> str:
        """The text without credentials."""
        if self._known is not None:
            text = self._known.sub(REDACTED, text)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        return _WORD.sub(_starred, _PAIR.sub(_starred, text))

    def value(self, value: Any) -> Any:
        """A document as plain values, without credentials; a Secret keeps nothing but the names of its keys."""
        if isinstance(value, Mapping):
            if value.get("kind") == "Secret":
                value = redacted({**value, "kind": "Secret"})
            return self._mapping(value)
        if isinstance(value, list | tuple):
            flags = [False, *(_is_secret_flag(each) for each in value)]
            return [
                REDACTED if behind else self.value(each) for behind, each in zip(flags, value, strict=False)
            ]
        return self.text(value) if isinstance(value, str) else value

    def _mapping(self, value: Mapping[str, Any]) -> dict[str, Any]:
        # `{name: X, value: V}`: a variable of a container, or a header.
        named = value.get("name") if isinstance(value.get("value"), str) else None
        hides_value = isinstance(named, str) and _is_secret_name(named)
        return {
            self.text(name): REDACTED
            if (name == "value" and hides_value) or _is_secret_pair(name, each)
            else self.value(each)
            for name, each in value.items()
        }


def _is_secret_flag(value: Any) -> bool:
    """Of the words of a command: what follows is a credential."""
    return isinstance(value, str) and value.startswith("-") and "=" not in value and _is_secret_name(value)


def _is_secret_pair(name: str, value: Any) -> bool:
    return _is_secret_name(name) and isinstance(value, str | bytes) and bool(value)


def _is_secret_name(name: str) -> bool:
    looks = is_secret(name.rpartition(":")[2]) or re.fullmatch(rf"(?i){_NAME}", name) is not None
    return looks and _INNOCENT.search(name) is None


def _starred(found: re.Match[str]) -> str:
    if _INNOCENT.search(found["name"]) or found["value"].strip("\\\"'") in (
        "",
        REDACTED,
        "null",
        "true",
        "false",
        "{",
        "[",
    ):
        return found[0]
    quote_mark = re.match(r"\\?[\"']", found["value"])
    mark = quote_mark[0] if quote_mark else ""
    return f"{found['name']}{found['between']}{mark}{REDACTED}{mark}"


def _forms(value: str) -> set[str]:
    """How a value may stand in a text: as it is, quoted for an address or for JSON, or in base64."""
    encoded = value.encode("utf-8", "surrogateescape")
    plain = {value, quote(value, errors="replace"), quote(value, safe="", errors="replace")}
    plain |= {
        quote_plus(value, errors="replace"),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
    }
    return plain | {
        base64.b64encode(encoded).decode(),
        base64.urlsafe_b64encode(encoded).decode().rstrip("="),
    }
