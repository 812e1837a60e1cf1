"""How the driver answers a call: errors become the codes that the specification demands, never a traceback.

Of a request only the names of volume and target are logged: the rest may be secret.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from headrace.csi.volume_requests import PublishedOtherwiseError
from headrace.errors import (
    BusyError,
    ConfigError,
    DeadlineError,
    HeadraceError,
    MissingFileError,
    RefusedError,
    UnsupportedError,
)

_log = logging.getLogger("headrace.csi")

_CODES: tuple[tuple[type[HeadraceError], Any], ...] = (
    (PublishedOtherwiseError, grpc.StatusCode.ALREADY_EXISTS),
    (ConfigError, grpc.StatusCode.INVALID_ARGUMENT),
    (MissingFileError, grpc.StatusCode.NOT_FOUND),
    (BusyError, grpc.StatusCode.ABORTED),
    (DeadlineError, grpc.StatusCode.UNAVAILABLE),
    (UnsupportedError, grpc.StatusCode.FAILED_PRECONDITION),
    (RefusedError, grpc.StatusCode.PERMISSION_DENIED),
)
Method = Callable[[Any, Any, Any], Awaitable[Any]]


def code_of(error: HeadraceError) -> Any:
    """The code of an error: the first kind in the table that fits."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


def answered(method: Method) -> Method:
    """Wraps a method of a service."""

    @functools.wraps(method)
    async def wrapper(service: Any, request: Any, context: Any) -> Any:
        # What was begun is brought to its end, also when the caller has gone: it holds its target path until then.
        task = asyncio.ensure_future(method(service, request, context))
        try:
            return await asyncio.shield(task)
        except HeadraceError as error:
            _say(method.__name__, request, error)
            text = f"{error.message} ({error.hint})" if error.hint else error.message
            await context.abort(code_of(error), text)
        except asyncio.CancelledError:
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise
        except Exception:
            _log.exception("volume/%s: %s: a fault", getattr(request, "volume_id", ""), method.__name__)
            await context.abort(grpc.StatusCode.INTERNAL, "a fault of the driver: see its log")

    return wrapper


def _say(method: str, request: Any, error: HeadraceError) -> None:
    volume = getattr(request, "volume_id", "")[:256]
    _log.warning("volume/%s: %s: %s", volume if volume.isprintable() else "?", method, error)
