"""Objects as plain values: what was said of them, in the order of their fields, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.api.base import REVEAL, ApiModel
from headrace.api.kinds import kind_of

if TYPE_CHECKING:
    from headrace.api.kinds import Object


def content_of(thing: Object, *, reveal_secrets: bool = False) -> dict[str, Any]:
    """The object as the API server would have it in JSON. A Secret's values are stars unless revealed."""
    return {"apiVersion": kind_of(thing).api_version, "kind": kind_of(thing).name} | part_content(
        thing, reveal_secrets=reveal_secrets
    )


def part_content(part: ApiModel, *, reveal_secrets: bool = False) -> dict[str, Any]:
    """The same of a part, such as a status: the fields that were set."""
    return part.model_dump(mode="json", by_alias=True, exclude_unset=True, context={REVEAL: reveal_secrets})
