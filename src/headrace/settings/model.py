"""The base of all settings: frozen, and an unknown key is an error, so that a slip of the hand is reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict

from headrace.deferred_model import DeferredModel


class Model(DeferredModel):
    """An immutable value that was checked when it was made."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


def fault_text(fault: Mapping[str, Any]) -> str:
    """What one fault of a `ValidationError` says, without the class that pydantic puts before sentences of ours."""
    return str(fault["msg"]).removeprefix("Value error, ")
