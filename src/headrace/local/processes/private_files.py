"""Files that one role alone shall read, such as its settings and values of its Secrets: written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

from headrace.errors import ConfigError, NoSpaceError, RefusedError
from headrace.trusted_folders import make_folder


def make_private_folder(folder: Path) -> Path:
    """The folder, for its owner alone."""
    make_folder(folder)
    folder.chmod(0o700)
    return folder


def write_private(path: Path, content: bytes) -> bool:
    """Writes a file of mode 0600 into a folder of mode 0700; false when it holds just that already.

    Raises `NoSpaceError`, `ConfigError` or `RefusedError`, which name the file and nothing of its content.
    """
    try:
        make_private_folder(path.parent)
        if _is_private(path) and path.read_bytes() == content:
            return False
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            _write(draft, content)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except RefusedError:
        raise
    except OSError as error:
        kind = NoSpaceError if error.errno in (errno.ENOSPC, errno.EDQUOT) else ConfigError
        raise kind.of(f"cannot write {path}: {error.strerror}") from None
    return True


def _is_private(path: Path) -> bool:
    return path.is_file() and path.stat().st_mode & 0o777 == 0o600


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
