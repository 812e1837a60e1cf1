"""The last words of a process of ours, out of its log, for a status that others may read: one line, and no
credential."""

from __future__ import annotations

import re

_LONGEST = 400
_COMPLAINT = "error: "
_STARS = "**********"
_SECRETS = (
    # Somebody's name and password in an address.
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/\s@]+@", re.IGNORECASE), rf"\1{_STARS}@"),
    # A word for a secret, and what it is set to.
    (
        re.compile(
            r"((?:secret|token|passw(?:or)?d|(?:access|account|api)[-_. ]?key|credential|signature|authorization)"
            r"[\w.-]*[\"']?)"
            r"(\s*=\s*|:\s*(?=[\"'])|:(?=\S))(?:[\"'][^\"']*[\"']?|[^\s,;&\"']+)",
            re.IGNORECASE,
        ),
        rf"\1\2{_STARS}",
    ),
    # The same as an option of a command. A file's name may be told; short words go on with a sentence.
    (
        re.compile(
            r"(--(?![\w.-]*file)[\w.-]*(?:secret|token|passw(?:or)?d|access-?key)[\w.-]*\s+)[^\s-]\S{7,}"
        ),
        rf"\1{_STARS}",
    ),
    (re.compile(r"([?&]sig=)[^\s&\"']+"), rf"\1{_STARS}"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]+)?"), _STARS),
    (re.compile(r"\b(bearer|basic)\s+\S+", re.IGNORECASE), rf"\1 {_STARS}"),
    (re.compile(r"\b(?:AKIA|ASIA|LTAI)[A-Za-z0-9]{12,}"), _STARS),
)


def last_words(text: str) -> str:
    """The last complaint of a log, else its last line; empty without any."""
    return last_complaint(text) or last_line(text)


def last_complaint(text: str) -> str:
    """The last complaint of one of our programs, `error: …`, without that word; empty when there was none."""
    found = [line.removeprefix(_COMPLAINT) for line in _lines(text) if line.startswith(_COMPLAINT)]
    return _told(found)


def last_line(text: str) -> str:
    """The last line that holds anything."""
    return _told(_lines(text))


def _told(lines: list[str]) -> str:
    words = (lines or [""])[-1]
    for secret, stars in _SECRETS:
        words = secret.sub(stars, words)
    return words[:_LONGEST]


def _lines(text: str) -> list[str]:
    return [line for line in map(_plain, text.splitlines()) if line]


def _plain(line: str) -> str:
    """What a log may hold that moves a cursor, or the text that stands beside it, is left out."""
    return "".join(each for each in line if each.isprintable()).strip()
