"""What pods note of the token that they were started with: a keyed digest, by which a later one is told apart. Pure."""

from __future__ import annotations

from headrace.operator.desired_state import DesiredState
from headrace.operator.mirror import Content, Mirror
from headrace.operator.rendering.naming import TOKEN_ANNOTATION, Names, names_of
from headrace.plan.referring import referred


def own_token(desired: DesiredState) -> str:
    """The token that a dataset's own cluster has unless another one is in its Secret: it follows from its identity."""
    thing = desired.dataset or desired.runtime
    return desired.mirror.derived(desired.title, (thing.metadata.uid if thing else None) or "")


def token_note(desired: DesiredState) -> str:
    """What pods note that are started now; empty where nobody can tell yet."""
    mirror, names = desired.mirror, desired.names
    home = desired.declared and referred(desired.declared)
    digest = token_digest(mirror, names_of(home) if home else names)
    if home:
        return note_of(mirror, digest) if digest else ""
    own = note_of(mirror, mirror.digest(own_token(desired)))
    noted = set(map(noted_token, desired.pods()))
    # One that is there is the truth, whoever made it; but not if somebody put it in the place of what runs.
    is_true = digest and not (note_of(mirror, digest) not in noted and own in noted)
    return note_of(mirror, digest) if is_true else own


def is_locked_out(noted: str, current: str) -> bool:
    """True for who has another token than is in the Secret. Digests of another key tell nothing."""
    return bool(current) and noted != current and noted.partition(".")[0] == current.partition(".")[0]


def token_digest(mirror: Mirror, names: Names) -> str:
    """The digest of the token in a dataset's Secret; empty where there is none."""
    return token_digests(mirror, names).get("token", "")


def token_digests(mirror: Mirror, names: Names) -> dict[str, str]:
    """The digests of all tokens in a dataset's Secret: the whole one, a worker's, a reader's."""
    secret = mirror.get("Secret", names.namespace, names.token)
    return dict((secret or {}).get("digests") or {})


def note_of(mirror: Mirror, digest: str) -> str:
    """The note of a digest. It begins with what tells its key from others."""
    return f"{mirror.digest('')[:8]}.{digest}"


def noted_token(pod: Content) -> str:
    """What a pod notes."""
    return str((pod["metadata"].get("annotations") or {}).get(TOKEN_ANNOTATION, ""))
