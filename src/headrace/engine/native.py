"""The native module, loaded when it is first needed and never by `import headrace`."""

from __future__ import annotations

import functools
import warnings
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, cast

from headrace.errors import EngineError
from headrace.settings.log_format import LogFormat

if TYPE_CHECKING:
    from headrace import _native


@functools.cache
def load() -> ModuleType:
    """The module `headrace._native`. Raises `EngineError` when it was not built."""
    try:
        module = import_module("headrace._native")
    except ImportError as error:
        hint = "run `make build`, or install a wheel for this Python and machine"
        raise EngineError.of(f"the native engine cannot be loaded: {error}", hint=hint) from error
    if module.is_debug_build():
        warnings.warn("the engine is a debug build: several times slower than a release build", stacklevel=2)
    return module


def set_log(level: str, form: LogFormat = LogFormat.TEXT) -> None:
    """Sends the engine's log lines of this level and above to standard error."""
    load().set_log(level, json=form is LogFormat.JSON, file=None)


def version() -> str:
    """The version of the engine."""
    return str(load().version())


def engine_class() -> type[_native.Engine]:
    """The class of native engines."""
    return cast("type[_native.Engine]", load().Engine)
