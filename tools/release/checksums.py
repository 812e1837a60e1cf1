"""The list of a release's files with their digests, and its signature."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tools.release.commands import ReleaseError, output_of

NAME = "SHA256SUMS"


def write_checksums(folder: Path) -> Path:
    """The list of all files of a folder, as `sha256sum --check` reads it."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith(NAME))
    to = folder / NAME
    to.write_text("".join(f"{_digest(path)}  {path.name}\n" for path in files))
    return to


def sign(file: Path, key: str) -> Path:
    """The signature of a file, beside it: FILE.asc. `key` names a key of gpg's own keyring; gpg, or its agent, asks for
    what opens it, so it stands on no command line and in no variable.
    """
    if not key.strip() or key.startswith("-"):
        raise ReleaseError("no key of gpg has that name: name its fingerprint")
    signature = file.with_name(f"{file.name}.asc")
    command = [
        "gpg",
        "--batch",
        "--yes",
        "--armor",
        "--local-user",
        key,
        "--output",
        signature,
        "--detach-sign",
        file,
    ]
    output_of(command, folder=file.parent)
    return signature


def _digest(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
