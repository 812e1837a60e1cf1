"""The base of every model: its validator is built when it is first used.

Each process checks a few kinds of messages and settings of the two hundred that the modules it imports define, and
building one takes about a millisecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import RLock
from typing import Any

from pydantic import BaseModel, ConfigDict

_BUILDING = RLock()


class DeferredModel(BaseModel):
    """A `BaseModel` that costs its process nothing before it is used, and that any number of threads may use."""

    model_config = ConfigDict(defer_build=True)

    @classmethod
    def model_rebuild(
        cls,
        *,
        force: bool = False,
        raise_errors: bool = True,
        _parent_namespace_depth: int = 2,
        _types_namespace: Mapping[str, Any] | None = None,
    ) -> bool | None:
        """As pydantic's, which calls it at the first use; one thread at a time, as pydantic before 2.14 needs it."""
        with _BUILDING:
            return super().model_rebuild(
                force=force,
                raise_errors=raise_errors,
                _parent_namespace_depth=_parent_namespace_depth + 1,  # this frame
                _types_namespace=_types_namespace,
            )
