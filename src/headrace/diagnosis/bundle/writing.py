"""The file of a bundle: whole or not there, readable by its owner alone, and of bounded size."""

from __future__ import annotations

import errno
import io
import json
import os
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from headrace.diagnosis.bundle.redaction import Redactor
from headrace.errors import BusyError, ConfigError

FORMAT = 1
MOST_FILE_BYTES = 1 << 20
MOST_BYTES = 64 << 20


@dataclass
class Bundle:
    """The content of a bundle, as it is added: everything passes the redactor, and nothing is larger than it may be."""

    archive: tarfile.TarFile
    redactor: Redactor
    root: str
    contents: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[dict[str, str]] = field(default_factory=list)
    size_bytes: int = 0

    def add_text(self, name: str, text: str, about: str) -> None:
        """A text: of a long one the end."""
        # Before it is cut: half of a credential would not be known again.
        data = self.redactor.text(text).encode("utf-8", "replace")
        is_cut = len(data) > MOST_FILE_BYTES
        self._add(name, data[-MOST_FILE_BYTES:], about, is_cut=is_cut)

    def add_value(self, name: str, value: Any, about: str) -> None:
        """A document: one that is too long is left out, since half of it would be none."""
        data = json.dumps(self.redactor.value(value), indent=1, ensure_ascii=False, default=str).encode()
        if len(data) > 4 * MOST_FILE_BYTES:
            self.leave_out(name, f"it has {len(data):,} bytes")
            return
        self._add(name, data, about)

    def leave_out(self, name: str, why: str) -> None:
        """Says what is not in."""
        self.left_out.append({"name": name, "why": self.redactor.text(why)})

    def finish(self, version: str) -> None:
        """Adds the manifest."""
        manifest = {
            "format": FORMAT,
            "headrace": version,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "contents": self.contents,
            "left_out": self.left_out,
        }
        self._write("manifest.json", json.dumps(manifest, indent=1, ensure_ascii=False).encode())

    def _add(self, name: str, data: bytes, about: str, *, is_cut: bool = False) -> None:
        if self.size_bytes + len(data) > MOST_BYTES:
            self.leave_out(name, f"the bundle has its {MOST_BYTES >> 20} MiB")
            return
        safe = _safe(self.redactor.text(name))
        self.size_bytes += len(data)
        self.contents.append({"name": safe, "bytes": len(data), "about": about, "is_cut": is_cut})
        self._write(safe, data)

    def _write(self, name: str, data: bytes) -> None:
        entry = tarfile.TarInfo(f"{self.root}/{name}")
        entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
        self.archive.addfile(entry, io.BytesIO(data))


@contextmanager
def writing(target: Path, redactor: Redactor) -> Iterator[Bundle]:
    """A bundle that appears at `target` when the block has ended well. Raises `BusyError` if there is something."""
    if target.exists() or target.is_symlink():
        raise BusyError.of(f"{target} is there already", hint="name another file, or remove it")
    try:
        with _appearing(target) as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            yield Bundle(archive, redactor, target.name.removesuffix(".tar.gz"))
    except FileExistsError:
        raise BusyError.of(f"{target} is there already", hint="name another file, or remove it") from None
    except OSError as error:
        if error.errno not in _NO_PLACE:
            raise
        raise ConfigError.of(
            f"{target} cannot be written: {error.strerror}", hint="name another place: --file PATH"
        ) from None


_NO_PLACE = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR}
_NO_UNNAMED = {errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL}


@contextmanager
def _appearing(target: Path) -> Iterator[IO[bytes]]:
    """A file without a name, which gets it at the end: whoever is killed before that leaves nothing."""
    try:
        descriptor = os.open(target.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in _NO_UNNAMED or not target.parent.is_dir():
            raise
        with _renamed(target) as file:
            yield file
        return
    with os.fdopen(descriptor, "w+b") as file:
        yield file
        file.flush()
        folder = os.open(target.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Only with a folder of its own does Python follow the link that /proc has for a descriptor.
            os.link(f"/proc/self/fd/{file.fileno()}", target.name, dst_dir_fd=folder, follow_symlinks=True)
        finally:
            os.close(folder)


@contextmanager
def _renamed(target: Path) -> Iterator[IO[bytes]]:
    """The same where a file has to have a name: another one, until it is whole."""
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.") as file:
        yield file
        file.flush()
        os.link(file.name, target)


def _safe(name: str) -> str:
    """A name below the bundle's folder: no way out of it, and nothing that a terminal would obey."""
    parts = (part for part in name.split("/") if part not in ("", ".", ".."))
    return "/".join(
        "".join(c if c.isprintable() and c != "\\" else "_" for c in part)[:100] for part in parts
    )
