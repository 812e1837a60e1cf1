"""The objects of one bucket of the OSS test server, and the XML that OSS lists them with.

Objects are bytes in memory or files of a folder; a key may be anything, also what no file system can hold.
"""

from __future__ import annotations

import base64
import bisect
import datetime
import hashlib
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

LARGEST_PAGE = 1000
DEFAULT_PAGE = 100


@dataclass(frozen=True)
class OssObject:
    """Content with what OSS tells about it."""

    size_bytes: int
    etag: str
    modified: datetime.datetime
    read: Callable[[], bytes]


@dataclass(frozen=True)
class Page:
    """One page of a listing, in key order."""

    keys: list[str]
    common_prefixes: list[str]
    next_after: str | None


class OssBucket:
    """A bucket whose objects a test may change while the server runs."""

    def __init__(self, folder: Path | None = None) -> None:
        """With the files of `folder` as first objects, keys relative to it."""
        self._objects: dict[str, OssObject] = {}
        self._keys: list[str] | None = None
        for path in sorted(folder.rglob("*")) if folder else ():
            if path.is_file():
                self._set(path.relative_to(folder).as_posix() if folder else "", _file_object(path))

    def put(self, key: str, content: bytes) -> str:
        """Makes or replaces an object; its etag."""
        made = OssObject(len(content), _etag(content), datetime.datetime.now(datetime.UTC), lambda: content)
        self._set(key, made)
        return made.etag

    def delete(self, key: str) -> None:
        self._objects.pop(key, None)
        self._keys = None

    def get(self, key: str) -> OssObject | None:
        return self._objects.get(key)

    def _set(self, key: str, new: OssObject) -> None:
        self._objects[key] = new
        self._keys = None

    def page(self, prefix: str, delimiter: str, after: str, limit: int) -> Page:
        """Up to `limit` keys and common prefixes that come after `after`."""
        keys = self._sorted_keys()
        found: list[str] = []
        prefixes: list[str] = []
        last = after
        for key in keys[bisect.bisect_right(keys, after.encode(), key=str.encode) :]:
            if not key.startswith(prefix):
                continue
            head, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            common = f"{prefix}{head}{cut}" if cut else None
            if common is not None and (common in prefixes or after.startswith(common)):
                continue
            if len(found) + len(prefixes) == limit:
                return Page(found, prefixes, last)
            found.append(key) if common is None else prefixes.append(common)
            last = key if common is None else common
        return Page(found, prefixes, None)

    def _sorted_keys(self) -> list[str]:
        if self._keys is None:
            # OSS orders by the bytes of the key in UTF-8.
            self._keys = sorted(self._objects, key=str.encode)
        return self._keys


def list_xml(bucket: OssBucket, name: str, query: Mapping[str, str]) -> str:
    """The answer to GetBucket (ListObjects) or, with list-type=2, ListObjectsV2."""
    is_v2 = query.get("list-type") == "2"
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    limit = min(int(query.get("max-keys", DEFAULT_PAGE)), LARGEST_PAGE)
    page = bucket.page(prefix, delimiter, _start(query, is_v2=is_v2), limit)
    encode = urllib.parse.quote if query.get("encoding-type") == "url" else escape
    fields = {
        "Name": escape(name),
        "Prefix": encode(prefix),
        "MaxKeys": str(limit),
        "Delimiter": encode(delimiter),
        "EncodingType": query.get("encoding-type", ""),
        "IsTruncated": "false" if page.next_after is None else "true",
        **_continuation(page, encode, is_v2=is_v2),
    }
    parts = [f"<{tag}>{text}</{tag}>" for tag, text in fields.items()]
    for key in page.keys:
        known = bucket.get(key)
        if known is not None:
            parts.append(_contents_xml(encode(key), known))
    parts += [
        f"<CommonPrefixes><Prefix>{encode(common)}</Prefix></CommonPrefixes>"
        for common in page.common_prefixes
    ]
    body = "".join(parts)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult>{body}</ListBucketResult>'


def _start(query: Mapping[str, str], *, is_v2: bool) -> str:
    if not is_v2:
        return query.get("marker", "")
    token = query.get("continuation-token")
    return base64.urlsafe_b64decode(token).decode() if token else query.get("start-after", "")


def _continuation(page: Page, encode: Callable[[str], str], *, is_v2: bool) -> dict[str, str]:
    count = {"KeyCount": str(len(page.keys) + len(page.common_prefixes))} if is_v2 else {}
    if page.next_after is None:
        return count
    if is_v2:
        return {**count, "NextContinuationToken": base64.urlsafe_b64encode(page.next_after.encode()).decode()}
    return {"NextMarker": encode(page.next_after)}


def _contents_xml(encoded_key: str, known: OssObject) -> str:
    modified = known.modified.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return (
        f"<Contents><Key>{encoded_key}</Key><LastModified>{modified}</LastModified>"
        f"<ETag>{escape(known.etag)}</ETag><Type>Normal</Type><Size>{known.size_bytes}</Size>"
        "<StorageClass>Standard</StorageClass></Contents>"
    )


def _file_object(path: Path) -> OssObject:
    content = path.read_bytes()
    modified = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
    return OssObject(len(content), _etag(content), modified, path.read_bytes)


def _etag(content: bytes) -> str:
    # OSS writes the MD5 in capitals.
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest().upper()}"'
