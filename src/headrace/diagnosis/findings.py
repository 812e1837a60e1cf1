"""The findings of a check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """The weight of a finding: a note is worth knowing and keeps nothing from working."""

    GOOD = "ok"
    NOTE = "note"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer: what was checked, what is so, and what to do if that is no good. Never holds a credential."""

    check: str
    level: Level
    text: str
    remedy: str = ""

    def as_dict(self) -> dict[str, str]:
        """Its fields, as JSON has them."""
        return {"check": self.check, "level": self.level.value, "text": self.text, "remedy": self.remedy}


def good(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, Level.GOOD, text)


def note(check: str, text: str, remedy: str = "") -> Finding:
    """Something to know."""
    return Finding(check, Level.NOTE, text, remedy)


def fault(check: str, text: str, remedy: str) -> Finding:
    """Something does not work, and what to do."""
    return Finding(check, Level.FAULT, text, remedy)


def has_fault(findings: Iterable[Finding]) -> bool:
    """True if anything does not work."""
    return any(finding.level is Level.FAULT for finding in findings)
