"""The exit codes of Headrace's processes: one table, shared by the command line and the mount process."""

from __future__ import annotations

from enum import IntEnum

from headrace import errors
from headrace.extras import command_to_install


class ExitCode(IntEnum):
    """The exit codes with their meaning."""

    meaning: str

    def __new__(cls, number: int, meaning: str) -> ExitCode:
        """A number that knows what it means."""
        member = int.__new__(cls, number)
        member._value_ = number
        member.meaning = meaning
        return member

    OK = 0, "done"
    UNEXPECTED = 1, "a fault of Headrace itself"
    USAGE = 2, "wrong words on the command line"
    CONFIG = 3, "a wrong address, option, setting or path"
    NOT_FOUND = 4, "the bucket, file, folder or mount is not there"
    REFUSED = 5, "credentials or rights were refused"
    UNREACHABLE = (
        6,
        "the origin cannot be reached, does not answer in time, or asks to slow down for too long; or a cache disk does"
        " not answer",
    )
    BUSY = 7, "somebody else holds the mountpoint, the cache folder or the tree"
    NO_SPACE = 8, "no room left"
    DAMAGED = 9, "data changed under its snapshot, or does not match its checksum"
    UNSUPPORTED = 10, "this origin, kernel or file system cannot do it"
    INCOMPLETE = 11, "a warm-up or verification ended without having everything"
    FAULTS = 12, "`headrace doctor` found a fault, and named its remedy"
    INTERRUPTED = 130, "interrupted by Ctrl-C"


_OF_KIND = {
    "NotFound": ExitCode.NOT_FOUND,
    "PermissionDenied": ExitCode.REFUSED,
    "Stale": ExitCode.DAMAGED,
    "Corrupt": ExitCode.DAMAGED,
    "Throttled": ExitCode.UNREACHABLE,
    "Unreachable": ExitCode.UNREACHABLE,
    "Timeout": ExitCode.UNREACHABLE,
    "NoSpace": ExitCode.NO_SPACE,
    "Busy": ExitCode.BUSY,
    "Unsupported": ExitCode.UNSUPPORTED,
    "Config": ExitCode.CONFIG,
    "IsDirectory": ExitCode.CONFIG,
    "NotDirectory": ExitCode.CONFIG,
    "ReadOnly": ExitCode.UNSUPPORTED,
    "Cancelled": ExitCode.INTERRUPTED,
    "Unexpected": ExitCode.UNEXPECTED,
}


def exit_code(error: BaseException) -> ExitCode:
    """The code for what went wrong."""
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    if isinstance(error, errors.HeadraceError):
        return _OF_KIND.get(error.kind, ExitCode.UNEXPECTED)
    if isinstance(error, ImportError) and command_to_install(error):
        return ExitCode.UNSUPPORTED
    return ExitCode.UNEXPECTED


def known_kinds() -> dict[str, ExitCode]:
    """The code of every kind of error."""
    return dict(_OF_KIND)


def complaint(error: BaseException) -> str:
    """The message for a person: one line `error: …`, and one line `hint: …` when there is something to do."""
    if isinstance(error, errors.HeadraceError):
        lines = [f"error: {_one_line(error.message)}"]
        if error.hint:
            lines.append(f"hint: {_one_line(error.hint)}")
        return "\n".join(lines)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, ImportError) and (command := command_to_install(error)):
        return f"error: the package {error.name} is not installed\nhint: {command}"
    return (
        f"error: unexpected {type(error).__name__}: {_one_line(str(error))}\n"
        "hint: this is a fault of Headrace; HEADRACE_DEBUG=1 shows where; please report it"
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
