"""Folders in which nobody but this user and root can put anything, whoever else uses the machine.

A folder is as safe as each folder above it: who may write to one of those puts another folder in the place of ours. So
every level must belong to root or to us, and be closed to others, but for a sticky one such as /tmp, where the next
level must be ours. A link is followed where root or we made it, in a folder of that kind that is closed to others.
Levels are opened one after the other, each from the one above it, so that nobody changes what was looked at. A folder
that has passed stays safe, and may be used by its path.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from headrace.errors import RefusedError
from headrace.settings.environment import Environment

_LEVEL = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40
_MODE_ABOVE = 0o755
_ACCESS_LIST = "system.posix_acl_access"


def make_folder(path: Path, mode: int = 0o700) -> Path:
    """Makes a folder and what is missing above it, unless it is there. Either way it is ours alone from here on.

    Raises `RefusedError` for a level that others could change, and `OSError` for what keeps it from being made.
    """
    with _walk(path, mode) as walk:
        walk.check_end()
    return path


def check_folder(path: Path) -> None:
    """The same of a folder that must be there, and stays as it is."""
    with _walk(path) as walk:
        walk.check_end()


def check_above(path: Path) -> None:
    """Checks where a folder is, or would be made. Makes nothing."""
    with suppress(FileNotFoundError), _walk(path):
        pass


@contextmanager
def opened_place(path: Path) -> Iterator[int]:
    """A descriptor of a folder in which others may have folders, too, as in /tmp; for `dir_fd`.

    Raises `RefusedError` for one in which they could take ours away, and `OSError`.
    """
    with _walk(path) as walk:
        walk.check_place()
        yield walk.folder


def open_file(path: Path, flags: int, mode: int = 0o600) -> int:
    """The descriptor of a file of ours, which may lie in /tmp as well. Follows no link in the file's place.

    Raises `RefusedError` for what others could have put there, and `OSError`.
    """
    path = path.absolute()
    with _walk(path.parent) as walk:
        walk.check_place()
        descriptor = _opened_file(
            path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, walk.folder
        )
    try:
        if not walk.is_trusted:
            _check_file(path, descriptor)
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except OSError:
        os.close(descriptor)
        raise
    os.set_blocking(descriptor, True)
    return descriptor


def _opened_file(path: Path, flags: int, mode: int, folder: int) -> int:
    try:
        # Emptied only once it is known to be ours.
        return os.open(path.name, flags & ~os.O_TRUNC, mode, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise RefusedError.of(
                f"{path} is a link, and is not followed", hint="remove it, or name another file"
            ) from None
        raise


def _check_file(path: Path, descriptor: int) -> None:
    facts = os.fstat(descriptor)
    if stat.S_ISCHR(facts.st_mode) and facts.st_uid == 0:
        return
    if not stat.S_ISREG(facts.st_mode):
        raise RefusedError.of(f"{path} is no ordinary file", hint="remove it, or name another file")
    if facts.st_uid != os.geteuid():
        raise RefusedError.of(
            f"{path} belongs to {_user(facts.st_uid)}, not to {_user(os.geteuid())}",
            hint="remove it, or name another file",
        )
    if facts.st_nlink > 1:
        raise RefusedError.of(
            f"{path} has another name, which leads to the same file", hint="remove it, or name another file"
        )
    if writers := _writers(facts, descriptor):
        raise RefusedError.of(f"{writers} may write to {path}", hint=f"chmod go-w {path}, or remove it")


@contextmanager
def _walk(path: Path, make_mode: int | None = None) -> Iterator[_Walk]:
    walk = _Walk(path.absolute(), make_mode)
    try:
        walk.begin()
        while walk.names:
            walk.step()
        yield walk
    finally:
        os.close(walk.folder)


class _Walk:
    """A way from the root to a folder."""

    def __init__(self, path: Path, make_mode: int | None) -> None:
        self._path = path
        self._make_mode = make_mode
        self._links = 0
        self._trusted = Environment.current().trusted_folders
        self.names = deque(path.parts[1:])
        self.folder = os.open("/", _LEVEL | os.O_DIRECTORY)

    def begin(self) -> None:
        """Goes to the root."""
        os.close(self.folder)
        self.folder = os.open("/", _LEVEL | os.O_DIRECTORY)
        self._at, self._facts = Path("/"), os.fstat(self.folder)
        self._check_level(is_below_open=False)

    def step(self) -> None:
        """Opens and checks the next level, or goes where a link leads."""
        name = self.names.popleft()
        is_below_open = self.check_place()
        level = self._opened(name)
        facts = os.fstat(level)
        if stat.S_ISDIR(facts.st_mode):
            os.close(self.folder)
            self.folder, self._facts = level, facts
            self._at = self._at.parent if name == ".." else self._at / name
            self._check_level(is_below_open=is_below_open)
            return
        target = os.readlink("", dir_fd=level) if stat.S_ISLNK(facts.st_mode) else ""
        os.close(level)
        if not target:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(self._at / name))
        self._check_link(name, facts.st_uid, is_below_open=is_below_open)
        self._follow(target)

    def check_end(self) -> None:
        """The folder itself: sticky or not, nobody else may write to it."""
        writers = _writers(self._facts, self.folder)
        if writers and not self.is_trusted:
            self._refuse(
                f"{writers} may write to it",
                f"chmod go-w {self._at}, name a folder in it, which is made for you alone",
            )

    @property
    def is_trusted(self) -> bool:
        """Whether a person said that nobody else reaches the folder."""
        return any(self._at.is_relative_to(each) for each in self._trusted)

    def _opened(self, name: str) -> int:
        try:
            return os.open(name, _LEVEL, dir_fd=self.folder)
        except FileNotFoundError:
            if self._make_mode is None:
                raise
        with suppress(FileExistsError):
            os.mkdir(name, _MODE_ABOVE if self.names else self._make_mode, dir_fd=self.folder)
        return os.open(name, _LEVEL, dir_fd=self.folder)

    def _check_link(self, name: str, uid: int, *, is_below_open: bool) -> None:
        self._links += 1
        if self._links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(self._path))
        if is_below_open or not (self.is_trusted or _is_owner_trusted(uid, is_below_open=False)):
            self._at /= name
            self._refuse(f"it is a link that {_user(uid)} made", "name the folder that it leads to")

    def _follow(self, target: str) -> None:
        parts = Path(target).parts
        self.names.extendleft(reversed(parts[1:] if target.startswith("/") else parts))
        if target.startswith("/"):
            self.begin()

    def _check_level(self, *, is_below_open: bool) -> None:
        if self.is_trusted or _is_owner_trusted(self._facts.st_uid, is_below_open=is_below_open):
            return
        me = os.geteuid()
        wanted = f"neither to {_user(me)} nor to root" if me else "not to root"
        self._refuse(
            f"it belongs to {_user(self._facts.st_uid)}, {wanted}",
            "name a folder that only you and root can change, have the owner of that one changed",
        )

    def check_place(self) -> bool:
        """Whether others may put something beside what is next. Refuses where they may take that away as well."""
        writers = _writers(self._facts, self.folder)
        if not writers or self.is_trusted:
            return False
        if not self._facts.st_mode & stat.S_ISVTX:
            self._refuse(
                f"{writers} may change what is in it",
                f"chmod go-w {self._at}, name a folder elsewhere",
            )
        return True

    def _refuse(self, why: str, hint: str) -> NoReturn:
        which = "" if self._at == self._path else f"{self._path}: "
        trust = f"set HEADRACE_TRUSTED_FOLDERS={self._at} if nobody else reaches it, as in a volume of a pod's own"
        raise RefusedError.of(f"{which}{self._at} is not safe to use: {why}", hint=f"{hint}, or {trust}")


def _is_owner_trusted(uid: int, *, is_below_open: bool) -> bool:
    """Root and we. Users that this user namespace does not know all look alike: root of the machine is among them,
    whose folders the system is made of, but so is whoever else may write to /tmp.
    """
    return uid in (0, os.geteuid()) or (not is_below_open and _is_unknown_here(uid))


def _is_unknown_here(uid: int) -> bool:
    try:
        known = sum(int(line.split()[2]) for line in Path("/proc/self/uid_map").read_text().splitlines())
        return known < (1 << 32) - 1 and uid == int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError, IndexError):
        return False


def _writers(facts: os.stat_result, folder: int) -> str:
    """Who else may write to a folder, in words; nothing where nobody may.

    A group with the number of its owner is that owner's alone, as useradd makes it, unless the bits of the group stand
    for a list of whom else there is.
    """
    if facts.st_mode & stat.S_IWOTH:
        return "every user"
    if facts.st_mode & stat.S_IWGRP and (facts.st_gid != facts.st_uid or _has_access_list(folder)):
        return f"group {_group(facts.st_gid)}"
    return ""


def _has_access_list(folder: int) -> bool:
    try:
        return bool(os.getxattr(f"/proc/self/fd/{folder}", _ACCESS_LIST))
    except OSError:
        return False


def _user(uid: int) -> str:
    with suppress(KeyError):
        return f"user {uid} ({pwd.getpwuid(uid).pw_name})"
    return f"user {uid}"


def _group(gid: int) -> str:
    with suppress(KeyError):
        return f"{gid} ({grp.getgrgid(gid).gr_name})"
    return str(gid)
