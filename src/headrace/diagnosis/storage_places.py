"""By what name and port an origin is reached, as far as it can be told without asking. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from headrace.settings.origins import HttpOrigin, NfsOrigin, Origin, OssOrigin, S3Origin, WebhdfsOrigin

_NFS_PORT = 2049
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Place:
    """A host and port. `scheme` is `http`, `https`, `nfs`, or empty where only the server knows."""

    scheme: str
    host: str
    port: int
    proxy: str = ""
    """`host:port` of the proxy that stands before it."""


def place_of(origin: Origin, proxies: Mapping[str, str]) -> Place | None:
    """The place that requests for an origin go to; `None` for a folder, and for what workers are asked for."""
    if isinstance(origin, NfsOrigin):
        return Place("nfs", origin.server, origin.port or _NFS_PORT)
    if isinstance(origin, S3Origin | OssOrigin):
        return _of_url(_bucket_url(origin), proxies)
    if isinstance(origin, HttpOrigin | WebhdfsOrigin):
        return _of_url(origin.endpoint, proxies)
    return None


def _bucket_url(origin: S3Origin | OssOrigin) -> str:
    region = getattr(origin, "region", None)
    endpoint = origin.endpoint or (
        f"https://s3.{region}.amazonaws.com" if region else "https://s3.amazonaws.com"
    )
    if origin.path_style:
        return endpoint
    scheme, separator, rest = endpoint.rpartition("://")
    return f"{scheme}{separator}{origin.bucket}.{rest}"


def _of_url(url: str, proxies: Mapping[str, str]) -> Place | None:
    parts = urlsplit(url if "://" in url else f"//{url}")
    if not parts.hostname:
        return None
    port = parts.port or _PORTS.get(parts.scheme, 443)
    place = Place(parts.scheme, parts.hostname, port)
    proxy = _proxy(place, proxies)
    return Place(parts.scheme, parts.hostname, port, proxy) if proxy else place


def _proxy(place: Place, proxies: Mapping[str, str]) -> str:
    found = proxies.get(f"{place.scheme or 'https'}_proxy") or proxies.get("all_proxy") or ""
    if not found or any(_exempts(word, place.host) for word in proxies.get("no_proxy", "").split(",")):
        return ""
    parts = urlsplit(found if "://" in found else f"http://{found}")
    try:
        port = parts.port or _PORTS.get(parts.scheme, 80)
    except ValueError:
        return ""  # no port, so that nobody can be asked: its variable is told of as it is
    return f"{parts.hostname}:{port}" if parts.hostname else ""


def _exempts(word: str, host: str) -> bool:
    """Whether a word of `NO_PROXY` names a host: `*`, a domain, an address, or a network."""
    wanted = word.strip().lower().removeprefix("*").lstrip(".")
    if word.strip() == "*" or (wanted and (host.lower() == wanted or host.lower().endswith(f".{wanted}"))):
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(wanted, strict=False)
    except ValueError:
        return False
