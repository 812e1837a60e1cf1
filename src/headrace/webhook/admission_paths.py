"""The path that only API servers know: who asks elsewhere is told nothing.

API servers show no certificate unless somebody configures each of them to. They ask at a path, which stands in the
webhook's configuration beside the authority that they believe, and there only cluster administrators read it. So the
webhook announces one that nobody guesses: it is made from the key in its Secret, and all replicas know it.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from headrace.errors import ConfigError
from headrace.webhook.certificates import Pair, facts_of

_PURPOSE = b"headrace webhook: path of admission reviews"
_HEX_DIGITS = 32
_MOST_KNOWN = 4


def path_of(pair: Pair) -> str:
    """The path that goes with a pair's key, and does not tell it."""
    key = pair.key.get_secret_value().encode()
    return f"/pods/{hmac.digest(key, _PURPOSE, 'sha256').hex()[:_HEX_DIGITS]}"


class AdmissionPaths:
    """The paths of one replica: of the pairs that are kept, and of a few before, which API servers may still ask."""

    def __init__(self) -> None:
        self._known: tuple[str, ...] = ()

    def learn(self, pairs: Iterable[Pair | None]) -> None:
        """Answers at the paths of these, too, where they can be used."""
        fresh = [path_of(each) for each in pairs if each is not None and _is_whole(each)]
        older = [each for each in self._known if each not in fresh]
        self._known = (*fresh, *older)[:_MOST_KNOWN]

    def takes(self, path: str) -> bool:
        """True for one of them; how long that takes does not tell how much of it was right."""
        asked = path.encode("utf-8", "replace")
        return any(hmac.compare_digest(asked, each.encode()) for each in self._known)


def _is_whole(pair: Pair) -> bool:
    try:
        facts_of(pair)
    except ConfigError:
        return False
    return True
