"""The answers at the place of an origin: its name, its port, TLS, its clock, and its list."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from headrace.diagnosis.storage_places import Place, place_of
from headrace.engine import native
from headrace.errors import HeadraceError
from headrace.settings.engine import plain_json
from headrace.settings.origins import Origin

_ANSWER_S = 5.0
_MOST_ADDRESSES = 4


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """The findings on the way. A fault is the system's word; what comes after one was not tried."""

    place: Place
    addresses: tuple[str, ...] = ()
    name_fault: str = ""
    refused: Mapping[str, str] | None = None
    """The addresses that took no connection, and why."""
    tls: str = ""
    tls_fault: str = ""
    certificate_ends_s: float | None = None
    clock_ahead_s: float | None = None
    """How far this machine's clock is ahead of the server's; `None` where the server told no time."""


@dataclass(frozen=True, slots=True)
class ListFacts:
    """The result of listing the origin: nothing of it is kept."""

    fault: str = ""
    kind: str = ""
    hint: str = ""


def network(origin: Origin, proxies: Mapping[str, str]) -> NetworkFacts | None:
    """Name, connections, TLS and clock, within seconds each; `None` for what is reached over no network of ours."""
    place = place_of(origin, proxies)
    if place is None:
        return None
    host, port = _first_hop(place)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return NetworkFacts(place, name_fault=error.strerror or str(error))
    addresses = tuple(dict.fromkeys(str(each[4][0]) for each in found))[:_MOST_ADDRESSES]
    refused = {address: word for address in addresses if (word := _refusal(address, port))}
    if len(refused) == len(addresses) or place.scheme == "nfs" or place.proxy:
        return NetworkFacts(place, addresses, refused=refused)
    return _asked(place, addresses, refused)


def listing(origin: Origin) -> ListFacts:
    """Asks for one page of the list, as a mount does first."""
    try:
        native.load().check_origin(plain_json(origin))
    except HeadraceError as error:
        return ListFacts(error.message, error.kind, error.hint or "")
    return ListFacts()


def _first_hop(place: Place) -> tuple[str, int]:
    if not place.proxy:
        return place.host, place.port
    host, _, port = place.proxy.rpartition(":")
    return host.strip("[]"), int(port)


def _refusal(address: str, port: int) -> str:
    try:
        socket.create_connection((address, port), timeout=_ANSWER_S).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _asked(place: Place, addresses: tuple[str, ...], refused: Mapping[str, str]) -> NetworkFacts:
    """What a request without credentials is answered; whether it is refused does not matter."""
    context = ssl.create_default_context()
    connection = (
        http.client.HTTPSConnection(place.host, place.port, timeout=_ANSWER_S, context=context)
        if place.scheme == "https"
        else http.client.HTTPConnection(place.host, place.port, timeout=_ANSWER_S)
    )
    tls, ends = "", None
    try:
        connection.connect()
        if isinstance(connection.sock, ssl.SSLSocket):
            tls, ends = connection.sock.version() or "", _end(connection.sock)
        return NetworkFacts(place, addresses, "", refused, tls, "", ends, _clock_ahead(connection))
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error.reason or "no TLS"
        return NetworkFacts(place, addresses, "", refused, tls_fault=reason)
    except (OSError, http.client.HTTPException):
        # It took the connection, and that is what was asked; what it says is told by its list.
        return NetworkFacts(place, addresses, "", refused, tls, "", ends)
    finally:
        connection.close()


def _end(connection: ssl.SSLSocket) -> float | None:
    told = (connection.getpeercert() or {}).get("notAfter")
    return ssl.cert_time_to_seconds(told) if isinstance(told, str) else None


def _clock_ahead(connection: http.client.HTTPConnection) -> float | None:
    connection.request("HEAD", "/")
    told = connection.getresponse().getheader("Date")
    try:
        return time.time() - parsedate_to_datetime(told).timestamp() if told else None
    except ValueError:
        return None
