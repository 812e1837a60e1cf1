"""A small S3 client for tests: signed requests (Signature V4, path style), standard library only.

Independent of the engine on purpose: what it reads is what the engine's bytes are compared with.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import http.client
import urllib.parse
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from xml.etree import ElementTree

UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"
S3_NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


@dataclass(frozen=True)
class Credentials:
    """A key pair of the test server. The secret stays out of `repr`."""

    access_key_id: str
    secret_access_key: str = field(repr=False)

    def environment(self) -> dict[str, str]:
        """The variables by which S3 clients take their keys."""
        return {"AWS_ACCESS_KEY_ID": self.access_key_id, "AWS_SECRET_ACCESS_KEY": self.secret_access_key}


@dataclass(frozen=True)
class Reply:
    """Status, lower-case headers and body of one answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class ListedObject:
    key: str
    size_bytes: int
    etag: str


class S3Error(RuntimeError):
    """The server refused a request that the test needed."""

    def __init__(self, what: str, reply: Reply) -> None:
        super().__init__(f"{what}: HTTP {reply.status}: {reply.body[:300].decode(errors='replace')}")
        self.status = reply.status


class S3Client:
    """Requests to one endpoint, each over a connection of its own."""

    def __init__(self, endpoint: str, credentials: Credentials, *, region: str = "us-east-1") -> None:
        """`endpoint` is `http://host:port`."""
        self._host = urllib.parse.urlsplit(endpoint).netloc
        self._credentials = credentials
        self._region = region

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout_s: float = 30,
    ) -> Reply:
        """One signed request, whatever its status; `path` is `/bucket/key`, not yet percent-encoded."""
        quoted_path = urllib.parse.quote(path, safe="/-_.~")
        quoted_query = _canonical_query(query or {})
        named = {name: value for name, value in (headers or {}).items() if name.startswith("x-amz-")}
        signed = self._signed_headers(method, quoted_path, quoted_query, named)
        connection = http.client.HTTPConnection(self._host, timeout=timeout_s)
        try:
            target = f"{quoted_path}?{quoted_query}" if quoted_query else quoted_path
            connection.request(method, target, body=body, headers={**(headers or {}), **signed})
            answer = connection.getresponse()
            reply_headers = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, reply_headers, answer.read())
        finally:
            connection.close()

    def create_bucket(self, bucket: str) -> None:
        self._expect(self.request("PUT", f"/{bucket}"), f"cannot create bucket {bucket}")

    def put(self, bucket: str, key: str, body: bytes) -> str:
        """The etag of the new object."""
        reply = self.request("PUT", f"/{bucket}/{key}", body=body)
        self._expect(reply, f"cannot put {bucket}/{key}")
        return reply.headers["etag"]

    def put_in_parts(self, bucket: str, key: str, parts: Iterable[bytes], *, summed: bool = False) -> str:
        """The etag of the new object, which is no MD5; all parts but the last have 5 MiB or more.

        `summed`: as boto3 does it by default, with a CRC32 of each part, of which the storage keeps the CRC32.
        """
        path, listed = f"/{bucket}/{key}", ""
        algorithm = {"x-amz-checksum-algorithm": "CRC32"} if summed else {}
        begun = self.request("POST", path, query={"uploads": ""}, headers=algorithm)
        self._expect(begun, f"cannot begin an upload of {bucket}/{key}")
        upload = _text_of(begun.body, "UploadId")
        for number, part in enumerate(parts, 1):
            crc32 = base64.b64encode(zlib.crc32(part).to_bytes(4, "big")).decode()
            told = {"x-amz-checksum-crc32": crc32} if summed else {}
            query = {"partNumber": str(number), "uploadId": upload}
            reply = self.request("PUT", path, query=query, headers=told, body=part)
            self._expect(reply, f"cannot put part {number} of {bucket}/{key}")
            element = f"<ChecksumCRC32>{crc32}</ChecksumCRC32>" if summed else ""
            tag = f"<ETag>{reply.headers['etag']}</ETag>"
            listed += f"<Part><PartNumber>{number}</PartNumber>{tag}{element}</Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        ended = self.request("POST", path, query={"uploadId": upload}, body=document)
        self._expect(ended, f"cannot end the upload of {bucket}/{key}")
        return _text_of(ended.body, "ETag")

    def get(self, bucket: str, key: str) -> bytes:
        reply = self.request("GET", f"/{bucket}/{key}")
        self._expect(reply, f"cannot get {bucket}/{key}")
        return reply.body

    def delete(self, bucket: str, key: str) -> None:
        self._expect(self.request("DELETE", f"/{bucket}/{key}"), f"cannot delete {bucket}/{key}")

    def list_objects(self, bucket: str, prefix: str = "", *, page_size: int = 1000) -> Iterator[ListedObject]:
        """Every object below the prefix, in the order of the server."""
        query = {"list-type": "2", "prefix": prefix, "max-keys": str(page_size)}
        while True:
            reply = self.request("GET", f"/{bucket}", query=query)
            self._expect(reply, f"cannot list {bucket}/{prefix}")
            # The reply comes from our own test server on this machine.
            page = ElementTree.fromstring(reply.body)  # noqa: S314
            yield from _objects_of(page)
            token = page.findtext(f"{S3_NAMESPACE}NextContinuationToken")
            if page.findtext(f"{S3_NAMESPACE}IsTruncated") != "true" or not token:
                return
            query["continuation-token"] = token

    @staticmethod
    def _expect(reply: Reply, what: str) -> None:
        if reply.status >= 300:
            raise S3Error(what, reply)

    def _signed_headers(
        self, method: str, quoted_path: str, quoted_query: str, named: Mapping[str, str]
    ) -> dict[str, str]:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        own = {"host": self._host, "x-amz-content-sha256": UNSIGNED_PAYLOAD, "x-amz-date": now}
        headers = dict(sorted({**own, **named}.items()))
        names = ";".join(headers)
        canonical_headers = "".join(f"{name}:{value}\n" for name, value in headers.items())
        canonical = "\n".join([method, quoted_path, quoted_query, canonical_headers, names, UNSIGNED_PAYLOAD])
        scope = f"{now[:8]}/{self._region}/s3/aws4_request"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        to_sign = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{digest}"
        signature = hmac.new(self._signing_key(now[:8]), to_sign.encode(), "sha256").hexdigest()
        credential = f"{self._credentials.access_key_id}/{scope}"
        authorization = (
            f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}"
        )
        return {**headers, "authorization": authorization}

    def _signing_key(self, date: str) -> bytes:
        key = f"AWS4{self._credentials.secret_access_key}".encode()
        for part in (date, self._region, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        return key


def _text_of(document: bytes, name: str) -> str:
    # gofakes3, s3rver and rclone name no namespace. The document comes from a test server on this machine.
    return ElementTree.fromstring(document).findtext(f"{{*}}{name}") or ""  # noqa: S314


def _canonical_query(query: Mapping[str, str]) -> str:
    pairs = sorted(
        (urllib.parse.quote(k, safe="-_.~"), urllib.parse.quote(v, safe="-_.~")) for k, v in query.items()
    )
    return "&".join(f"{name}={value}" for name, value in pairs)


def _objects_of(page: ElementTree.Element) -> Iterator[ListedObject]:
    for entry in page.iterfind(f"{S3_NAMESPACE}Contents"):
        yield ListedObject(
            key=entry.findtext(f"{S3_NAMESPACE}Key") or "",
            size_bytes=int(entry.findtext(f"{S3_NAMESPACE}Size") or 0),
            etag=entry.findtext(f"{S3_NAMESPACE}ETag") or "",
        )
