"""The differences between two views: all that a master sends to readers who have an older one.

A view of 10,000 workers has megabytes, and one of them going away is no reason to send all of it to everybody.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from headrace.errors import ConfigError
from headrace.membership.view import View, ViewMember, documents_of, member_of


@dataclass(frozen=True, slots=True)
class ViewChange:
    """From the view of `from_epoch` to that of `epoch`: members that are new or different, and ids that went away."""

    from_epoch: int
    epoch: int
    replicas: int
    members: tuple[ViewMember, ...]
    removed: tuple[str, ...]

    def to_json(self) -> str:
        """The text that `change_of` reads."""
        document = {**asdict(replace(self, members=())), "members": documents_of(self.members)}
        return json.dumps(document, separators=(",", ":"))


def change_of(document: Mapping[str, Any]) -> ViewChange:
    """The inverse of a change's JSON. Raises `ConfigError` for anything else."""
    try:
        members = tuple(member_of(member) for member in document["members"])
        return ViewChange(**{**document, "members": members, "removed": tuple(document["removed"])})
    except (KeyError, TypeError) as error:
        raise ConfigError.of(
            f"this is no change of a view: {error}", hint="ask for the whole view"
        ) from error


def change_between(older: View, newer: View) -> ViewChange:
    """The change that leads from `older` to `newer`. Cached bytes are a hint: a new amount alone is no difference, but
    for 0."""
    before = {member.id: member for member in older.members}
    after = {member.id for member in newer.members}
    return ViewChange(
        from_epoch=older.epoch,
        epoch=newer.epoch,
        replicas=newer.replicas,
        members=tuple(member for member in newer.members if _differs(before.get(member.id), member)),
        removed=tuple(name for name in before if name not in after),
    )


def apply_change(view: View, change: ViewChange) -> View:
    """The newer view. Raises `ConfigError` for a change of another view: then the whole view is to be asked for."""
    if view.epoch != change.from_epoch:
        message = (
            f"the change is one of epoch {change.from_epoch}, and the view at hand has epoch {view.epoch}"
        )
        raise ConfigError.of(message, hint="ask for the whole view")
    members = {member.id: member for member in view.members}
    for name in change.removed:
        members.pop(name, None)
    members.update((member.id, member) for member in change.members)
    ordered = tuple(members[name] for name in sorted(members))
    return View(epoch=change.epoch, replicas=change.replicas, members=ordered)


def _differs(before: ViewMember | None, after: ViewMember) -> bool:
    if before is None or before.placement() != after.placement():
        return True
    return (before.cached_bytes == 0) != (after.cached_bytes == 0)
