"""The token of a dataset's cluster: made once, put back when somebody takes it away, borrowed by who refers to it.

It follows from the operator's key and the identity of the Dataset. So a Secret that was deleted comes back with the
same token, and nothing that runs is disturbed. Where that is not enough (the key is another one, too), all roles are
started anew with another token: pods note a digest of the one that they have, by which the planner tells them apart.
The key of that digest lies beside the token, so that an operator that was installed anew understands it.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import BusyError
from headrace.kube.client import KubeClient
from headrace.operator.desired_state import DesiredState
from headrace.operator.masters import Masters
from headrace.operator.rendering import workloads
from headrace.operator.rendering.naming import Names, names_of
from headrace.operator.rendering.render_context import RenderContext
from headrace.operator.rendering.role_tokens import (
    NOTES_KEY,
    READER_KEY,
    VERSION_KEY,
    WHOLE_KEY,
    WORKER_KEY,
    token_data,
)
from headrace.operator.token_digests import (
    digest_of,
    is_given_up,
    is_locked_out,
    is_unknown,
    noted_token,
    notes_of,
    own_notes_key,
    own_token,
    token_digest,
    token_digests,
    token_note,
    wanted_version,
)
from headrace.plan.dataset_events import Event, EventType
from headrace.plan.referring import referred

_RESTORED = "TokenRestored"
_LOST = "TokenLost"
_CHANGED = "TokenChanged"


@dataclass(frozen=True, slots=True)
class Kept:
    """The token is in its Secret. `note` is for pods; `event` tells what had happened to it."""

    note: str
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class TokenKeeper:
    """Keeps the token of one dataset. It costs no request while nothing is amiss."""

    client: KubeClient
    masters: Masters
    desired: DesiredState
    render_context: RenderContext

    async def keep(self) -> Kept:
        """Makes the Secret hold the token. Raises `BusyError` while the one that is to be borrowed is not there."""
        home = self.desired.declared and referred(self.desired.declared)
        return await self._borrow(names_of(home)) if home else await self._own()

    async def _own(self) -> Kept:
        names = self.desired.names
        note, present = token_note(self.desired), token_digest(self.desired.mirror, names)
        if is_given_up(self.desired):
            await self._write_own(own_token(self.desired))
            return Kept(note, self._event(note, _CHANGED))
        if not present or note != notes_of(self.desired).note(present):
            await self._write_own(own_token(self.desired))
            return Kept(note, self._event(note, _LOST))
        if not self._has_all(present):
            await self._write_own(await self._known(names))
        return Kept(note)

    def _has_all(self, present: str) -> bool:
        """True when what belongs to the token is beside it, too. Of a token that is not ours: when something is."""
        digests, token = token_digests(self.desired.mirror, self.desired.names), own_token(self.desired)
        if present != digest_of(token):
            return {WORKER_KEY, READER_KEY, NOTES_KEY} <= digests.keys()
        wanted = {key: digest_of(value) for key, value in token_data(token).items()}
        return NOTES_KEY in digests and wanted.items() <= digests.items()

    async def _write_own(self, token: str) -> None:
        """Writes a token and what belongs to it. The key of notes stays, as long as there is one."""
        names, key = self.desired.names, own_notes_key(self.desired)
        if token_digests(self.desired.mirror, names).get(NOTES_KEY, digest_of(key)) != digest_of(key):
            # Of an operator before this one.
            there = await self.masters.secret_value(names, NOTES_KEY)
            key = there.get_secret_value() if there is not None else key
        version = wanted_version(self.desired)
        said = {VERSION_KEY: version} if version else {}
        await self._write({**token_data(token), NOTES_KEY: key, **said})

    def _event(self, note: str, reason: str) -> Event | None:
        noted = [each for each in map(noted_token, self.desired.pods()) if each]
        if not noted:
            return None
        secret = f"Secret {self.desired.names.token}"
        if not any(is_locked_out(each, note) or is_unknown(each, note) for each in noted):
            what = (
                f"{secret} was deleted or changed: it is as it was again, and nothing that runs is disturbed"
            )
            return Event("Dataset", EventType.WARNING, _RESTORED, what)
        why = "was deleted, and its token cannot be had again" if reason == _LOST else "has another token now"
        what = f"{secret} {why}: master, workers and mounts start anew, and who reads waits for them"
        return Event("Dataset", EventType.WARNING if reason == _LOST else EventType.NORMAL, reason, what)

    async def _borrow(self, home: Names) -> Kept:
        mirror, names = self.desired.mirror, self.desired.names
        theirs, own = token_digests(mirror, home), token_digests(mirror, names)
        if WHOLE_KEY in own:
            # Of an earlier version, which lent it.
            taken = {"data": {WHOLE_KEY: None}}
            await self.client.patch("Secret", names.namespace, names.token, taken)
        if not {WHOLE_KEY, READER_KEY, NOTES_KEY} <= theirs.keys():
            raise _not_yet(home)
        if own.get(READER_KEY) != theirs[READER_KEY]:
            # Mounts alone run here: whoever may read Secrets of this namespace gets no more than they do.
            await self._write({READER_KEY: token_data(await self._known(home))[READER_KEY]})
        return Kept(token_note(self.desired))

    async def _known(self, names: Names) -> str:
        """The token in the Secret of a dataset."""
        token = await self.masters.token(names)
        if token is None:
            raise _not_yet(names)
        return token.get_secret_value()

    async def _write(self, data: dict[str, str]) -> None:
        names = self.desired.names
        content = workloads.secret(names.token, data, names, self.render_context)
        if self.desired.mirror.get("Secret", names.namespace, names.token) is None:
            await self.client.create(content)
        else:
            await self.client.apply(content)


def _not_yet(names: Names) -> BusyError:
    return BusyError.of(f"dataset {names.title} has no token yet", hint="it is looked at again")
