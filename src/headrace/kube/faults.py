"""The refusals of the API server, as errors of Headrace. Bodies of requests never stand in them: they may hold
secrets."""

from __future__ import annotations

import json
from http import HTTPStatus

from headrace.errors import BusyError, ConfigError, EngineError, HeadraceError, MissingFileError, RefusedError

_RIGHTS = "compare the rights of the service account with those of the chart"


class ConflictError(BusyError):
    """The object is another one than was read: read it again."""


class ExpiredError(BusyError):
    """A watch cannot go on from where it was: list again."""


_KINDS: dict[int, tuple[type[HeadraceError], str | None]] = {
    HTTPStatus.CONFLICT: (ConflictError, "it is tried again"),
    HTTPStatus.GONE: (ExpiredError, None),
    HTTPStatus.UNAUTHORIZED: (RefusedError, _RIGHTS),
    HTTPStatus.FORBIDDEN: (RefusedError, _RIGHTS),
    HTTPStatus.BAD_REQUEST: (ConfigError, None),
    HTTPStatus.UNPROCESSABLE_ENTITY: (ConfigError, None),
    HTTPStatus.TOO_MANY_REQUESTS: (BusyError, None),
    HTTPStatus.SERVICE_UNAVAILABLE: (BusyError, None),
}


def fault_of(status: int, body: bytes, what: str) -> HeadraceError:
    """The error of an answer. `what` names the request: `apply StatefulSet default/imagenet-worker`."""
    reason, message = _said(body)
    text = f"Kubernetes refuses to {what}: {message or reason or f'status {status}'}"
    if status == HTTPStatus.NOT_FOUND:
        return MissingFileError.of(f"{what}: there is none")
    kind, hint = _KINDS.get(status, (EngineError, None))
    return kind.of(text, hint=hint)


def _said(body: bytes) -> tuple[str, str]:
    """Reason and message of a `Status`. Of a Secret the server repeats nothing but names."""
    try:
        said = json.loads(body)
    except ValueError:
        return "", ""
    if not isinstance(said, dict):
        return "", ""
    return str(said.get("reason", "")), str(said.get("message", ""))[:1000]
