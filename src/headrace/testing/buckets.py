"""Puts files into the folder of a versitygw server so that they are full S3 objects, without one request.

versitygw's posix backend keeps an object as a plain file and its etag in the extended attribute `user.etag`;
a file without it is served with an empty etag, and If-Match fails. Writing file and attribute directly takes
about 40 µs an object plus the copying, against about 1 ms for a signed PUT: 70,000 objects in seconds instead
of minutes.
"""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

ETAG_ATTRIBUTE = "user.etag"


def put_object(bucket_folder: Path, key: str, content: bytes) -> str:
    """Writes one object and returns its etag (the quoted MD5, as S3 gives it)."""
    path = bucket_folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return set_etag(path, hashlib.md5(content, usedforsecurity=False).hexdigest())


def adopt_file(path: Path) -> str:
    """Makes a file that already lies in a bucket's folder an object; returns its etag."""
    with path.open("rb") as file:
        return set_etag(path, hashlib.file_digest(file, _md5).hexdigest())


def adopt_folder(folder: Path) -> int:
    """Adopts every file below the folder that has no etag yet; the number adopted."""
    pending = [path for path in folder.rglob("*") if path.is_file() and not _has_etag(path)]
    for path in pending:
        adopt_file(path)
    return len(pending)


def set_etag(path: Path, md5_hex: str) -> str:
    """Stores the etag as versitygw does and returns it."""
    etag = f'"{md5_hex}"'
    try:
        os.setxattr(path, ETAG_ATTRIBUTE, etag.encode())
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        message = f"{path} lies on a file system without user extended attributes; choose another folder"
        raise OSError(error.errno, message) from error
    return etag


def _md5() -> hashlib._Hash:
    return hashlib.md5(usedforsecurity=False)


def _has_etag(path: Path) -> bool:
    try:
        return bool(os.getxattr(path, ETAG_ATTRIBUTE))
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return False
        raise
