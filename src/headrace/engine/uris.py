"""The address of an origin as people write it, taken apart. Knows no options, no credentials and no network.

Buckets and keys are taken as they stand: `%20`, `?` and `#` may be part of a key. A URL that carries a password is
refused without being repeated, since what stands in an address ends up in logs and process listings.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from headrace.errors import ConfigError
from headrace.settings.paths import absolute

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_S3_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,254}")
_OSS_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_WEBHDFS_PORTS = {9870, 9871, 14000, 50070}
_WEBHDFS_PORT = 9870
_HTTPS_PORT = 443
_BUCKETS = ("s3", "oss")


@dataclass(frozen=True)
class Address:
    """The content of an address: the kind of origin, and the fields of its configuration that stand in it."""

    kind: str
    fields: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    """A name for people: the last part of the path, or the bucket or host."""


def parse_address(text: str, *, working_directory: Path) -> Address:
    """The parts of `s3://bucket/prefix`, `/path`, `https://host/path/` and so on. Raises `ConfigError`."""
    match = _SCHEME.fullmatch(text)
    if match is None:
        return _folder_or_error(text, working_directory)
    scheme = match["scheme"].lower()
    parse = _PARSERS.get(scheme)
    if parse is None:
        raise _unknown_scheme(scheme)
    _refuse_credentials(match["rest"], scheme)
    if "\0" in text:
        raise ConfigError.of("an address cannot hold a NUL character")
    return parse(scheme, match["rest"])


def is_numeric_or_local(endpoint: str) -> bool:
    """True for an endpoint that no bucket can be put in front of: an IP address or a name without dots."""
    host = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}").hostname or ""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "." not in host
    return True


def normal_endpoint(text: str, *, kind: str = "") -> str:
    """`https://host[:port]` of an endpoint with or without its scheme. Raises `ConfigError`.

    Of a bucket, one without a scheme and with a port other than that of HTTPS stays without: the engine finds out. The
    web address of a namenode is written without one where it is HTTP.
    """
    stripped = text.strip()
    unsaid = "http" if kind == "webhdfs" else "https"
    url = stripped if "://" in stripped else f"{unsaid}://{stripped}"
    scheme, _, rest = url.rstrip("/").partition("://")
    scheme = scheme.lower()
    _refuse_credentials(rest, scheme)
    try:
        parts = urlsplit(f"//{rest}")
        port = parts.port  # raises when it is no port
    except ValueError:
        parts, port = urlsplit(""), None
    if (
        scheme not in ("http", "https")
        or not parts.hostname
        or " " in parts.netloc
        or parts.path
        or parts.query
        or parts.fragment
    ):
        raise ConfigError.of(
            f"endpoint '{text}' is not the address of a server", hint="write https://host[:port]"
        )
    if kind in _BUCKETS and "://" not in stripped and port not in (None, _HTTPS_PORT):
        return parts.netloc
    return f"{scheme}://{parts.netloc}"


def with_scheme(endpoint: str | None) -> str:
    """The endpoint as it is told apart from others: the same server is the same, whoever says the scheme."""
    return f"https://{endpoint}" if endpoint and "://" not in endpoint else endpoint or ""


def _s3(_scheme: str, rest: str) -> Address:
    bucket, _, prefix = rest.partition("/")
    if not _S3_BUCKET.fullmatch(bucket):
        raise _no_bucket("s3", bucket)
    return Address("s3", {"bucket": bucket, "prefix": prefix.strip("/")}, _last_part(prefix) or bucket)


def _oss(_scheme: str, rest: str) -> Address:
    host, _, prefix = rest.partition("/")
    bucket, _, endpoint = host.partition(".")
    if not _OSS_BUCKET.fullmatch(bucket):
        raise _no_bucket("oss", bucket)
    fields = {"bucket": bucket, "prefix": prefix.strip("/")}
    if endpoint:
        fields["endpoint"] = normal_endpoint(endpoint, kind="oss")
    return Address("oss", fields, _last_part(prefix) or bucket)


def _hdfs(scheme: str, rest: str) -> Address:
    host, port, path = _authority(scheme, rest)
    if scheme == "hdfs":
        # The port of an hdfs:// address is the RPC port; WebHDFS answers on another one of the same machine.
        port = port if port in _WEBHDFS_PORTS else _WEBHDFS_PORT
    web = "https" if scheme == "swebhdfs" else "http"
    endpoint = f"{web}://{host}:{port or _WEBHDFS_PORT}"
    return Address("webhdfs", {"endpoint": endpoint, "directory": path or "/"}, _last_part(path) or host)


def _http(scheme: str, rest: str) -> Address:
    host, port, path = _authority(scheme, rest)
    if "?" in path or "#" in path:
        raise ConfigError.of(
            f"the {scheme} address of a folder has no query", hint=f"write {scheme}://host/path/"
        )
    endpoint = f"{scheme}://{host}" + (f":{port}" if port else "")
    return Address(
        "http", {"endpoint": endpoint, "directory": path or "/"}, _last_part(unquote(path)) or host
    )


def _nfs(scheme: str, rest: str) -> Address:
    host, port, path = _authority(scheme, rest)
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        raise ConfigError.of(
            f"'{scheme}://{rest}' has a .. in its path", hint="write the path from the export on"
        )
    directory = "/" + "/".join(names)
    fields = {"server": host, "directory": directory} | ({"port": str(port)} if port else {})
    return Address("nfs", fields, names[-1] if names else host)


def _local(scheme: str, rest: str) -> Address:
    if not rest.startswith("/"):
        raise ConfigError.of(
            f"'{scheme}://{rest}' has no absolute path",
            hint=f"write {scheme}:///path with three slashes, or just /path",
        )
    return _folder(Path(rest))


def _folder_or_error(text: str, working_directory: Path) -> Address:
    if text.startswith(("/", "./", "../", "~")) or text in (".", ".."):
        return _folder(absolute(text, below=working_directory))
    mistyped = re.match(r"([A-Za-z0-9]+):/*(.*)", text)
    if mistyped and mistyped[1].lower() in _PARSERS:
        raise ConfigError.of(
            f"'{text}' is not an address", hint=f"write {mistyped[1].lower()}://{mistyped[2]}"
        )
    raise ConfigError.of(
        f"'{text}' is not an address",
        hint=f"a folder is written ./{text}, a bucket s3://{text} or oss://{text}",
    )


def _folder(path: Path) -> Address:
    if "\0" in str(path):
        raise ConfigError.of("an address cannot hold a NUL character")
    # Only `.` and `..` are resolved: a symbolic link keeps its own name.
    parts: list[str] = []
    for part in PurePosixPath(path).parts[1:]:
        if part == "..":
            parts = parts[:-1]
        else:
            parts.append(part)
    directory = "/" + "/".join(parts)
    return Address("local", {"directory": directory}, parts[-1] if parts else "root")


def _authority(scheme: str, rest: str) -> tuple[str, int | None, str]:
    authority, slash, path = rest.partition("/")
    try:
        parts = urlsplit(f"//{authority}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or set(authority) & set("?#@ "):
        raise ConfigError.of(
            f"'{scheme}://{rest}' names no server", hint=f"write {scheme}://host[:port]/path"
        )
    return (f"[{host}]" if ":" in host else host), port, slash + path


def _refuse_credentials(rest: str, scheme: str) -> None:
    if "@" in rest.partition("/")[0]:
        raise ConfigError.of(
            f"the {scheme}:// address carries credentials, which would show in process listings",
            hint="leave them out; give them by --secret-file or by environment variables",
        )


def _last_part(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _no_bucket(scheme: str, bucket: str) -> ConfigError:
    what = (
        f"'{bucket}' cannot be the name of a bucket" if bucket else f"the {scheme}:// address names no bucket"
    )
    return ConfigError.of(what, hint=f"write {scheme}://bucket/prefix")


def _unknown_scheme(scheme: str) -> ConfigError:
    if scheme in ("pvc", "dataset"):
        return ConfigError.of(f"{scheme}:// needs Kubernetes", hint="mount the volume, and give its path")
    nearest = difflib.get_close_matches(scheme, _PARSERS, n=1, cutoff=0.6)
    known = ", ".join(f"{name}://" for name in _PARSERS)
    return ConfigError.of(
        f"unknown kind of origin '{scheme}://'",
        hint=f"did you mean {nearest[0]}://?" if nearest else f"known are {known}",
    )


_PARSERS: Mapping[str, Callable[[str, str], Address]] = {
    "s3": _s3,
    "s3a": _s3,
    "s3n": _s3,
    "oss": _oss,
    "hdfs": _hdfs,
    "webhdfs": _hdfs,
    "swebhdfs": _hdfs,
    "http": _http,
    "https": _http,
    "nfs": _nfs,
    "local": _local,
    "file": _local,
}

SCHEMES = tuple(_PARSERS)
"""The schemes that are understood."""
