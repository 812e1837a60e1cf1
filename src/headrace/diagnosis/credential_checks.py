"""The kind of an origin's credentials, their source, and how long they are good; never what they are. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.diagnosis.findings import Finding, fault, good, note
from headrace.settings.origins import Origin

_SOON_S = 900.0


@dataclass(frozen=True, slots=True)
class CredentialFacts:
    """The known facts about the credentials of one origin, without a value."""

    label: str
    kind: str
    """`none`, `keys`, `temporary keys`, `token`, `password`, `user name`, `none asked for`."""
    source: str
    expires_at_s: float | None = None
    is_renewed: bool = False


def kind_of(origin: Origin) -> str:
    """The kind of credentials that an origin holds."""
    held = {name for name in type(origin).model_fields if getattr(origin, name) is not None}
    if getattr(origin, "anonymous", False):
        return "none asked for"
    if {"session_token", "security_token"} & held:
        return "temporary keys"
    if "access_key_id" in held:
        return "keys"
    if {"token", "delegation_token"} & held:
        return "token"
    if "password" in held:
        return "password"
    return "user name" if {"user", "username"} & held else "none"


def check(facts: CredentialFacts, now_s: float) -> Finding:
    """The check that they are good for a while."""
    check_name = f"credentials of {facts.label}"
    text = f"{facts.kind}, from {facts.source}" if facts.source else facts.kind
    if facts.expires_at_s is None:
        if facts.kind == "temporary keys" and not facts.is_renewed:
            return note(
                check_name, f"{text}; nobody renews them", "an AWS profile or --secret-file renews them"
            )
        return good(check_name, text)
    left_s = facts.expires_at_s - now_s
    if left_s <= 0:
        return fault(
            check_name, f"{text}; they ended {-left_s / 60:.0f} minutes ago", "get others, as you got these"
        )
    if left_s < _SOON_S and not facts.is_renewed:
        return note(check_name, f"{text}; they end in {left_s / 60:.0f} minutes", "get others before that")
    renewed = ", and are renewed" if facts.is_renewed else ""
    return good(check_name, f"{text}; good for {left_s / 60:.0f} minutes{renewed}")
