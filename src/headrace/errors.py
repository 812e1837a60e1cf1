"""The errors of Headrace, for callers of the SDK and for the command line.

HeadraceError (OSError)         an operation failed; `.kind` is stable, `.hint` says what to do next
├── StaleDataError              the object changed since the snapshot (ESTALE)
├── CorruptDataError            bytes do not match their checksum (EIO)
├── OriginThrottledError        the origin asked to slow down, beyond the retry budget
├── OriginUnreachableError      the origin cannot be reached
├── NoSpaceError                no room left (ENOSPC)
├── BusyError                   somebody else holds it (EBUSY)
├── UnsupportedError            cannot be done here
├── ReadOnlyError               the tree is read-only (EROFS)
├── CancelledError              cancelled
├── EngineError                 a fault of Headrace itself
└── ConfigError (ValueError)    the request or the configuration is wrong (EINVAL)

Errors about training jobs are subclasses of these: MissingJobError, AmbiguousJobError, TakenJobError.

Missing files, refused rights, directories and time-outs come as subclasses that are also Python's own
FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError and TimeoutError.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import ClassVar, Self


class HeadraceError(OSError):
    """An operation of Headrace failed. `kind` is a stable name, `hint` what to do next (or None)."""

    own_kind: ClassVar[str] = "Unexpected"
    own_errno: ClassVar[int] = errno.EIO

    def __init__(
        self, number: int, message: str, *, kind: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(number, message)
        self.message = message
        self.kind = kind or self.own_kind
        self.hint = hint

    @classmethod
    def of(cls, message: str, *, hint: str | None = None) -> Self:
        """The error with its class's own number: `message` says what failed on what, `hint` what to do next."""
        return cls(cls.own_errno, message, hint=hint)

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.errno, self.message, self.kind, self.hint))


def _rebuild(
    error: type[HeadraceError], number: int, message: str, kind: str, hint: str | None
) -> HeadraceError:
    return error(number, message, kind=kind, hint=hint)


class StaleDataError(HeadraceError):
    """The object changed since the snapshot; take a new one with `headrace refresh`."""

    own_kind = "Stale"
    own_errno = errno.ESTALE


class CorruptDataError(HeadraceError):
    """Bytes do not match their checksum."""

    own_kind = "Corrupt"
    own_errno = errno.EIO


class OriginThrottledError(HeadraceError):
    """The origin asked to slow down, beyond the retry budget."""

    own_kind = "Throttled"
    own_errno = errno.EIO


class OriginUnreachableError(HeadraceError):
    """The origin cannot be reached: name, connection or TLS."""

    own_kind = "Unreachable"
    own_errno = errno.EIO


class NoSpaceError(HeadraceError):
    """No room left where room was needed."""

    own_kind = "NoSpace"
    own_errno = errno.ENOSPC


class BusyError(HeadraceError):
    """Somebody else holds what was asked for: a cache folder, a mountpoint."""

    own_kind = "Busy"
    own_errno = errno.EBUSY


class UnsupportedError(HeadraceError):
    """This origin, kernel or file system cannot do what was asked."""

    own_kind = "Unsupported"
    own_errno = errno.EOPNOTSUPP


class ReadOnlyError(HeadraceError):
    """The tree is read-only."""

    own_kind = "ReadOnly"
    own_errno = errno.EROFS


class CancelledError(HeadraceError):
    """The caller cancelled, or the engine is closing."""

    own_kind = "Cancelled"
    own_errno = errno.EINTR


class EngineError(HeadraceError):
    """A fault of Headrace itself; please report it."""

    own_kind = "Unexpected"
    own_errno = errno.EIO


class ConfigError(HeadraceError, ValueError):
    """The request or the configuration is wrong; nothing was done."""

    own_kind = "Config"
    own_errno = errno.EINVAL


class MissingFileError(HeadraceError, FileNotFoundError):
    """The file, object, bucket or path is not there."""

    own_kind = "NotFound"
    own_errno = errno.ENOENT


class MissingJobError(MissingFileError):
    """There is no training job of that name."""


class AmbiguousJobError(ConfigError):
    """Training jobs of several kinds have that name; say which kind is meant."""


class TakenJobError(BusyError):
    """There is a training job of that name already."""


class RefusedError(HeadraceError, PermissionError):
    """The origin or the operating system refused the credentials or the rights."""

    own_kind = "PermissionDenied"
    own_errno = errno.EACCES


class DeadlineError(HeadraceError, TimeoutError):
    """No answer within the deadline."""

    own_kind = "Timeout"
    own_errno = errno.ETIMEDOUT


class DirectoryInsteadError(HeadraceError, IsADirectoryError):
    """A directory was asked for as a file."""

    own_kind = "IsDirectory"
    own_errno = errno.EISDIR


class NotDirectoryInsteadError(HeadraceError, NotADirectoryError):
    """A file was asked for as a directory."""

    own_kind = "NotDirectory"
    own_errno = errno.ENOTDIR


CLASSES: Mapping[str, type[HeadraceError]] = {
    error.own_kind: error
    for error in (
        StaleDataError,
        CorruptDataError,
        OriginThrottledError,
        OriginUnreachableError,
        NoSpaceError,
        BusyError,
        UnsupportedError,
        ReadOnlyError,
        CancelledError,
        EngineError,
        ConfigError,
        MissingFileError,
        RefusedError,
        DeadlineError,
        DirectoryInsteadError,
        NotDirectoryInsteadError,
    )
}
"""The class for each kind of the engine's error table."""
