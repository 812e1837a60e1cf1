"""What can go wrong, for callers of the SDK and for the command line.

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

Missing files, refused rights, directories and time-outs come as subclasses that are also Python's own
FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError and TimeoutError.
"""

from __future__ import annotations

import errno


class HeadraceError(OSError):
    """An operation of Headrace failed. `kind` is a stable name, `hint` what to do next (or None)."""

    def __init__(
        self, number: int, message: str, *, kind: str = "Unexpected", hint: str | None = None
    ) -> None:
        super().__init__(number, message)
        self.message = message
        self.kind = kind
        self.hint = hint

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


class CorruptDataError(HeadraceError):
    """Bytes do not match their checksum."""


class OriginThrottledError(HeadraceError):
    """The origin asked to slow down, beyond the retry budget."""


class OriginUnreachableError(HeadraceError):
    """The origin cannot be reached: name, connection or TLS."""


class NoSpaceError(HeadraceError):
    """No room left where room was needed."""


class BusyError(HeadraceError):
    """Somebody else holds what was asked for: a cache folder, a mountpoint."""


class UnsupportedError(HeadraceError):
    """This origin, kernel or file system cannot do what was asked."""


class ReadOnlyError(HeadraceError):
    """The tree is read-only."""


class CancelledError(HeadraceError):
    """The caller cancelled, or the engine is closing."""


class EngineError(HeadraceError):
    """A fault of Headrace itself; please report it."""


class ConfigError(HeadraceError, ValueError):
    """The request or the configuration is wrong; nothing was done."""

    @classmethod
    def of(cls, message: str, *, hint: str | None = None) -> ConfigError:
        """The error that Python code raises: `message` says what is wrong with what, `hint` what to write instead."""
        return cls(errno.EINVAL, message, kind="Config", hint=hint)


class MissingFileError(HeadraceError, FileNotFoundError):
    """The file, object, bucket or path is not there."""


class RefusedError(HeadraceError, PermissionError):
    """The origin or the operating system refused the credentials or the rights."""


class DeadlineError(HeadraceError, TimeoutError):
    """No answer within the deadline."""


class DirectoryInsteadError(HeadraceError, IsADirectoryError):
    """A directory was asked for as a file."""


class NotDirectoryInsteadError(HeadraceError, NotADirectoryError):
    """A file was asked for as a directory."""
