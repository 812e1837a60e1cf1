"""The election of a leader, decided from a Lease (coordination.k8s.io/v1): no I/O, and no clock but the one that is
handed in.

Clocks of several machines are never compared. A candidate notes by its own clock when it saw the lease change, and
takes it once it stood still for the whole duration. A leader counts from the moment *before* it sent a renewal that was
taken, and stops acting after `renew_deadline_s`, which is shorter: so it has stopped before anybody else begins, as
long as clocks run at about the same speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.errors import ConfigError

Content = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Terms:
    """The times of a lease: how long it lasts, how long its holder acts without having renewed it, and how often each
    tries."""

    duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry_s < self.renew_deadline_s < self.duration_s:
            raise ConfigError.of(
                "the terms of a lease do not fit",
                hint="retry_s is below renew_deadline_s, and that is below duration_s",
            )


@dataclass(frozen=True, slots=True)
class Sighting:
    """A lease as it was read (`None`: there was none), and since when it looks so, by the clock of who read it."""

    lease: Content | None
    since_s: float

    @property
    def holder(self) -> str:
        """The holder of the lease; empty when nobody holds it."""
        return str(_spec(self.lease).get("holderIdentity") or "")


@dataclass(frozen=True, slots=True)
class Take:
    """Write this lease: a new one without a resourceVersion, else over the one that was read."""

    lease: Content


@dataclass(frozen=True, slots=True)
class Wait:
    """Somebody else leads. Look again then."""

    seconds: float


Action = Take | Wait


def sighted(before: Sighting | None, lease: Content | None, now_s: float) -> Sighting:
    """The lease as it was read now. It is as old as the sighting before it unless something changed in between."""
    if before is not None and _record(before.lease) == _record(lease):
        return Sighting(lease, before.since_s)
    return Sighting(lease, now_s)


def next_action(
    seen: Sighting, me: str, *, name: tuple[str, str], terms: Terms, now_s: float, wall: datetime
) -> Action:
    """The next action of `me` on the lease `name` (namespace, name). `wall` is noted for people alone."""
    if seen.lease is None:
        return Take(_new(name, me, terms, wall))
    if seen.holder in {"", me}:
        return Take(_held(seen.lease, me, terms, wall))
    # The longer of both: who holds it may have been started with other terms.
    lasts_s = max(terms.duration_s, float(_spec(seen.lease).get("leaseDurationSeconds") or 0))
    left_s = seen.since_s + lasts_s - now_s
    if left_s <= 0:
        return Take(_held(seen.lease, me, terms, wall))
    return Wait(min(left_s, terms.retry_s))


def released(lease: Content, me: str) -> Content | None:
    """The lease when `me` gives it back, so that the next one need not wait; `None` when it is not theirs."""
    if Sighting(lease, 0.0).holder != me:
        return None
    return {**lease, "spec": {**_spec(lease), "holderIdentity": "", "leaseDurationSeconds": 1}}


def acts_until(sent_s: float, terms: Terms) -> float:
    """The time until which the holder acts, given the renewal sent at `sent_s`."""
    return sent_s + terms.renew_deadline_s


def _new(name: tuple[str, str], me: str, terms: Terms, wall: datetime) -> Content:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": name[0], "name": name[1]},
        "spec": _said(me, terms, wall) | {"acquireTime": _micro(wall), "leaseTransitions": 0},
    }


def _held(lease: Content, me: str, terms: Terms, wall: datetime) -> Content:
    before = _spec(lease)
    spec = {**before, **_said(me, terms, wall)}
    if before.get("holderIdentity") != me:
        spec |= {
            "acquireTime": _micro(wall),
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + 1,
        }
    return {**lease, "spec": spec}


def _said(me: str, terms: Terms, wall: datetime) -> dict[str, Any]:
    # Whole seconds, rounded up: others wait longer rather than shorter.
    duration_s = int(-(-terms.duration_s // 1))
    return {"holderIdentity": me, "leaseDurationSeconds": duration_s, "renewTime": _micro(wall)}


def _micro(wall: datetime) -> str:
    return wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _spec(lease: Content | None) -> Mapping[str, Any]:
    return (lease or {}).get("spec") or {}


def _record(lease: Content | None) -> tuple[Any, ...] | None:
    """What changes with every renewal. The version alone would also change with a label that somebody sets."""
    if lease is None:
        return None
    spec = _spec(lease)
    names = ("holderIdentity", "renewTime", "acquireTime", "leaseTransitions", "leaseDurationSeconds")
    return tuple(spec.get(name) for name in names)
