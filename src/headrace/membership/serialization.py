"""The membership as text that survives its master: `dump` writes it, `restore` reads it (docs/format/membership.md)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

from pydantic import Field, ValidationError

from headrace.errors import ConfigError, CorruptDataError, UnsupportedError
from headrace.membership.events import MOST_EPOCH
from headrace.membership.facts import MOST_BYTES, MemberFacts
from headrace.membership.policy import Policy
from headrace.membership.publication import publish_now
from headrace.membership.state import Membership, Outcome, fresh
from headrace.membership.worker import GONE, Worker, WorkerState
from headrace.settings.model import Model

MAGIC = "headrace-membership"
VERSION = 1
MAX_TEXT_BYTES = 64 << 20

_HINT = "move the file away: the master learns its workers again within `grace_s`; drains are to be asked for again"


class _Worker(Model):
    facts: MemberFacts
    incarnation: int = Field(ge=0, lt=1 << 63)
    state: WorkerState
    weight: int = Field(ge=0, le=2 * MOST_BYTES)
    joined_epoch: int = Field(ge=0, le=MOST_EPOCH)


class _Body(Model):
    epoch: int = Field(ge=0, le=MOST_EPOCH)
    workers: tuple[_Worker, ...]


def dump(state: Membership) -> str:
    """The state as text, without times: another process has another clock.

    Of a master that still learns what those before it knew the epoch is 0: so does the next one, then.
    """
    workers = [_plain(state.workers[name]) for name in sorted(state.workers)]
    body = {"epoch": 0 if state.is_beginning else state.epoch, "workers": workers}
    document = {"magic": MAGIC, "version": VERSION, "checksum": _checksum(body), "body": body}
    return json.dumps(document, separators=(",", ":")) + "\n"


def restore(text: str, policy: Policy, now_s: float, first_epoch: int = 1) -> Outcome:
    """The state of a master that goes on, and a view of a new epoch, as the last one may not be what was kept.

    There is no view where the last master had none, or had not heard all workers of those before it: what it knew is
    half of it, and the next one learns the rest as it would have (`first_epoch` is as for `fresh`).

    Nobody counts as silent before `policy.grace_s` have passed. Raises `CorruptDataError` for a damaged text,
    `UnsupportedError` for one of a later version, `ConfigError` for something else.
    """
    body = _body(text)
    workers = {kept.facts.id: _worker(kept, policy, len(body.workers), now_s) for kept in body.workers}
    if body.epoch == 0:
        return Outcome(_beginning(workers, policy, now_s, first_epoch))
    state = Membership(policy=policy, workers=workers, epoch=body.epoch, now_s=now_s)
    return publish_now(Outcome(state), now_s)


def _beginning(workers: dict[str, Worker], policy: Policy, now_s: float, first_epoch: int) -> Membership:
    state = fresh(policy, now_s, first_epoch)
    if not any(worker.is_listed for worker in workers.values()):
        return replace(state, workers=workers)
    # They would have been published at once, had not others been waited for.
    return replace(state, workers=workers, is_pending=True, quiet_until_s=state.learning_until_s)


def _plain(worker: Worker) -> dict[str, Any]:
    return {
        "facts": worker.facts.model_dump(mode="json"),
        "incarnation": worker.incarnation,
        "state": worker.state.value,
        "weight": worker.weight,
        "joined_epoch": worker.joined_epoch,
    }


def _worker(kept: _Worker, policy: Policy, workers: int, now_s: float) -> Worker:
    grace_s = 0.0 if kept.state in GONE else policy.grace_s
    return Worker(
        facts=kept.facts,
        incarnation=kept.incarnation,
        state=WorkerState.ACTIVE if kept.state is WorkerState.SUSPECT else kept.state,
        weight=kept.weight,
        heard_s=now_s + grace_s,
        asked_s=policy.interval_s(workers),
        joined_epoch=kept.joined_epoch,
        born_s=now_s,
    )


def _body(text: str) -> _Body:
    if len(text) > MAX_TEXT_BYTES:
        raise ConfigError.of(
            f"the membership has {len(text)} characters: too many for one of ours", hint=_HINT
        )
    document = _parse(text)
    version = document.get("version")
    if isinstance(version, int) and version > VERSION:
        message = f"the membership was written in version {version}, and this master knows {VERSION}"
        raise UnsupportedError.of(message, hint="run the newer version again")
    body = document.get("body")
    if version != VERSION or document.get("checksum") != _checksum(body):
        raise CorruptDataError.of("the membership does not match its checksum", hint=_HINT)
    try:
        return _Body.model_validate_json(json.dumps(body))
    except ValidationError as error:
        raise CorruptDataError.of(
            f"the membership is damaged: {error.error_count()} wrong values", hint=_HINT
        ) from None


def _parse(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise CorruptDataError.of("the membership is cut off or damaged", hint=_HINT) from None
    if not isinstance(document, dict) or document.get("magic") != MAGIC:
        raise ConfigError.of("this is no membership of ours", hint="check the master's state directory")
    return document


def _checksum(body: object) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
