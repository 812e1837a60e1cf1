"""Digests of secrets that others may see: pods note that of their token, by which a later one is told apart. Pure.

They are keyed, since a short secret could be guessed from a plain digest, and with a key of the dataset's own, which
lies beside its token. So they mean the same to an operator that was installed anew, and to nobody else.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from headrace.operator.desired_state import DesiredState
from headrace.operator.mirror import Content, Mirror, digest_of_value
from headrace.operator.rendering.naming import (
    TOKEN_ANNOTATION,
    TOKEN_VERSION_ANNOTATION,
    Names,
    names_of,
)
from headrace.operator.rendering.role_tokens import NOTES_KEY, VERSION_KEY, WHOLE_KEY
from headrace.plan.referring import referred


@dataclass(frozen=True, slots=True)
class Notes:
    """The digests of one dataset's secrets that others may see."""

    key: bytes

    def keyed(self, digest: str) -> str:
        """The keyed digest, which tells it from others, and nothing else."""
        return hashlib.blake2b(digest.encode(), key=self.key, digest_size=16).hexdigest()

    def note(self, digest: str) -> str:
        """The note of a token's digest. It begins with what tells its key from others."""
        return f"{self.keyed('')[:8]}.{self.keyed(digest)}" if digest else ""


def own_token(desired: DesiredState) -> str:
    """The token that a dataset's own cluster has unless another one is in its Secret: it follows from its identity, and
    from the word by which another one was asked for.
    """
    version = wanted_version(desired)
    return desired.mirror.derived(desired.title, _uid(desired), *([VERSION_KEY, version] if version else []))


def wanted_version(desired: DesiredState) -> str:
    """The word by which the owner asks for another token; empty where nobody does."""
    metadata = desired.dataset.metadata if desired.dataset else None
    return metadata.annotations.get(TOKEN_VERSION_ANNOTATION, "") if metadata else ""


def is_given_up(desired: DesiredState) -> bool:
    """True when the token in the dataset's Secret is there, and the owner asks for another one. A caller that asks no
    more keeps what is there: the first one may be known to whom it was taken from.
    """
    digests = token_digests(desired.mirror, desired.names)
    version = wanted_version(desired)
    return bool(version) and WHOLE_KEY in digests and digests.get(VERSION_KEY) != digest_of(version)


def own_notes_key(desired: DesiredState) -> str:
    """The key of its notes that a dataset has unless another one is in its Secret."""
    return desired.mirror.derived(desired.title, _uid(desired), NOTES_KEY)


def notes_of(desired: DesiredState) -> Notes:
    """Those of the dataset whose cluster this one is read through: its own, or the one that it refers to."""
    home = desired.declared and referred(desired.declared)
    digest = token_digests(desired.mirror, names_of(home) if home else desired.names).get(NOTES_KEY)
    return Notes(bytes.fromhex(digest or digest_of(own_notes_key(desired))))


def token_note(desired: DesiredState) -> str:
    """The note of pods that are started now; empty where nobody can tell yet."""
    mirror, names, notes = desired.mirror, desired.names, notes_of(desired)
    home = desired.declared and referred(desired.declared)
    digest = token_digest(mirror, names_of(home) if home else names)
    if home:
        return notes.note(digest)
    own = notes.note(digest_of(own_token(desired)))
    noted = set(map(noted_token, desired.pods()))
    # One that is there is the truth, whoever made it; but not if somebody put it in the place of what runs, nor if the
    # owner wants another.
    is_true = digest and not is_given_up(desired) and not (notes.note(digest) not in noted and own in noted)
    return notes.note(digest) if is_true else own


def is_locked_out(noted: str, current: str) -> bool:
    """True for who has another token than is in the Secret. Notes of another key tell nothing."""
    return bool(noted and current) and noted != current and not is_unknown(noted, current)


def is_unknown(noted: str, current: str) -> bool:
    """True for a note of another key: nobody can tell whether its token is the one in the Secret."""
    return bool(noted and current) and noted.partition(".")[0] != current.partition(".")[0]


def token_digest(mirror: Mirror, names: Names) -> str:
    """The digest of the token in a dataset's Secret; empty where there is none."""
    return token_digests(mirror, names).get(WHOLE_KEY, "")


def token_digests(mirror: Mirror, names: Names) -> dict[str, str]:
    """The digests of all that is in a dataset's Secret: the whole token, a worker's, a reader's, the key of notes."""
    secret = mirror.get("Secret", names.namespace, names.token)
    return dict((secret or {}).get("digests") or {})


def digest_of(value: str) -> str:
    """The digest that a Secret has for this value."""
    return digest_of_value(value.encode())


def noted_token(pod: Content) -> str:
    """The token's note of a pod."""
    return str((pod["metadata"].get("annotations") or {}).get(TOKEN_ANNOTATION, ""))


def _uid(desired: DesiredState) -> str:
    thing = desired.dataset or desired.runtime
    return (thing.metadata.uid if thing else None) or ""
