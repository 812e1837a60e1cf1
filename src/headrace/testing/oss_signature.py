"""Checks the header signature of Alibaba Cloud OSS, version 1: `Authorization: OSS key:base64(HMAC-SHA1)`.

Written from OSS's documentation of the string to sign, not from a client: a client's mistake is found.
"""

from __future__ import annotations

import base64
import datetime
import email.utils
import hmac
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field

# OSS refuses a request whose Date is further off than this.
LARGEST_CLOCK_SKEW = datetime.timedelta(minutes=15)
# Query parameters that are part of the signed resource, of those that a reader may send.
SIGNED_PARAMETERS = frozenset(
    {
        *("acl", "location", "stat", "bucketInfo", "versions", "versionId", "symlink", "objectMeta"),
        *("continuation-token", "security-token", "restore", "tagging", "uploads", "uploadId", "partNumber"),
        *("response-content-type", "response-cache-control", "response-content-encoding", "x-oss-process"),
    }
)


@dataclass(frozen=True)
class OssKeys:
    """A key pair, and the token that temporary credentials carry. The secrets stay out of `repr`."""

    access_key_id: str
    access_key_secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


class RefusalError(Exception):
    """Why a request is refused: HTTP status, OSS's error code and its message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def check_signature(
    keys: OssKeys, method: str, target: str, headers: Mapping[str, str], *, bucket_in_host: str | None
) -> None:
    """Raises `RefusalError` unless the request is signed with these keys; `headers` have lower-case names.

    `bucket_in_host` is the bucket when the host name carries it, None when the path does.
    """
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    key_id, _, signature = rest.partition(":")
    if scheme != "OSS":
        raise RefusalError(
            403, "AccessDenied", "You have no right to access this object because of bucket acl."
        )
    if key_id != keys.access_key_id:
        raise RefusalError(
            403, "InvalidAccessKeyId", "The OSS Access Key Id you provided does not exist in our records."
        )
    _check_date(headers.get("date", ""))
    if headers.get("x-oss-security-token") != keys.security_token:
        raise RefusalError(403, "InvalidSecurityToken", "The security token you provided is invalid.")
    text = string_to_sign(method, target, headers, bucket_in_host=bucket_in_host)
    expected = base64.b64encode(hmac.digest(keys.access_key_secret.encode(), text.encode(), "sha1")).decode()
    if not hmac.compare_digest(expected, signature):
        message = "The request signature we calculated does not match the signature you provided."
        raise RefusalError(403, "SignatureDoesNotMatch", message)


def string_to_sign(
    method: str, target: str, headers: Mapping[str, str], *, bucket_in_host: str | None
) -> str:
    """VERB, Content-MD5, Content-Type, Date, the x-oss- headers in order, and the resource."""
    oss_headers = sorted(
        (name, value.strip()) for name, value in headers.items() if name.startswith("x-oss-")
    )
    first = [method, headers.get("content-md5", ""), headers.get("content-type", ""), headers.get("date", "")]
    lines = [*first, *(f"{name}:{value}" for name, value in oss_headers)]
    return "\n".join([*lines, _resource(target, bucket_in_host)])


def _resource(target: str, bucket_in_host: str | None) -> str:
    path, _, query = target.partition("?")
    path = urllib.parse.unquote(path)
    if bucket_in_host is not None:
        path = f"/{bucket_in_host}{path}"
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    signed = sorted((name, value) for name, value in pairs if name in SIGNED_PARAMETERS)
    parts = [f"{name}={value}" if value else name for name, value in signed]
    return path + ("?" + "&".join(parts) if parts else "")


def _check_date(text: str) -> None:
    try:
        sent = email.utils.parsedate_to_datetime(text)
    except ValueError as error:
        raise RefusalError(403, "AccessDenied", "OSS authentication requires a valid Date.") from error
    if abs(datetime.datetime.now(datetime.UTC) - sent) > LARGEST_CLOCK_SKEW:
        raise RefusalError(
            403, "RequestTimeTooSkewed", "The difference between the request time and now is too large."
        )
