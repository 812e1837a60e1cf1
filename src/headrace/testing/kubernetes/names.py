"""The name server of the cluster: addresses of services and of the pods of headless services. Nothing else.

It asks the API server for what it is asked, so an answer is never older than a second. Names of the world are unknown
to it: pods of tests have no way out.

    python -m headrace.testing.kubernetes.names --listen ADDRESS --certificate PATH --authority PATH
"""

from __future__ import annotations

import argparse
import http.client
import json
import socketserver
import ssl
import struct
import time
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from headrace.testing.kubernetes.layout import API_PORT, DOMAIN

PORT = 53
_A, _AAAA, _ANY, _IN = 1, 28, 255, 1
_NO_ERROR, _SERVER_FAILURE, _NO_NAME = 0, 2, 3
_ANSWER_FLAGS = 0x8580  # an answer, authoritative, recursion wanted and had
_LIFETIME_S = 1
_MOST_ADDRESSES = 28  # of one answer of 512 bytes
_HEADER = struct.Struct("!6H")

Fetch = Callable[[str], dict[str, Any] | None]
"""Gets an object of the API by its path; None where there is none."""


class Names:
    """Finds the addresses of names by the API."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    def addresses(self, name: str) -> list[IPv4Address] | None:
        """None when there is no such name. `HOST.SERVICE.NAMESPACE.svc.cluster.local`, the host only of pods."""
        words = name.lower().rstrip(".").removesuffix(f".svc.{DOMAIN}").split(".")
        if not name.lower().rstrip(".").endswith(f".svc.{DOMAIN}") or len(words) not in (2, 3):
            return None
        service, namespace = words[-2:]
        found = self._fetch(f"/api/v1/namespaces/{namespace}/services/{service}")
        if found is None:
            return None
        own = found["spec"].get("clusterIP") or "None"
        if own != "None":
            return [IPv4Address(own)] if len(words) == 2 else None
        return self._pods(service, namespace, host=words[0] if len(words) == 3 else None)

    def _pods(self, service: str, namespace: str, *, host: str | None) -> list[IPv4Address] | None:
        slices = self._fetch(
            f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
            f"?labelSelector=kubernetes.io/service-name%3D{service}"
        )
        endpoints = [each for part in (slices or {}).get("items", ()) for each in part.get("endpoints") or ()]
        ready = [each for each in endpoints if each.get("conditions", {}).get("ready", True)]
        if host is not None:
            ready = [each for each in ready if each.get("hostname") == host]
        return [IPv4Address(address) for each in ready for address in each["addresses"]] or None


def answer(query: bytes, names: Names) -> bytes:
    """The message that answers a query of one question. Raises `ValueError` for what is no query."""
    number, _, questions, *_ = _HEADER.unpack_from(query)
    if questions != 1:
        raise ValueError("one question, please")
    name, end = _read_name(query, _HEADER.size)
    kind, _ = struct.unpack_from("!2H", query, end)
    asked = query[_HEADER.size : end + 4]
    try:
        found = names.addresses(name)
    except OSError:
        return _HEADER.pack(number, _ANSWER_FLAGS | _SERVER_FAILURE, 1, 0, 0, 0) + asked
    shown = (found or [])[:_MOST_ADDRESSES] if kind in (_A, _ANY) else []
    code = _NO_NAME if found is None else _NO_ERROR
    return _HEADER.pack(number, _ANSWER_FLAGS | code, 1, len(shown), 0, 0) + asked + b"".join(_records(shown))


def _records(addresses: Iterable[IPv4Address]) -> Iterable[bytes]:
    for address in addresses:
        # The name is the one at byte 12: that of the question.
        yield struct.pack("!3HIH", 0xC00C, _A, _IN, _LIFETIME_S, 4) + address.packed


def _read_name(message: bytes, start: int) -> tuple[str, int]:
    """A name, and where what follows it begins."""
    labels, place = [], start
    while length := message[place]:
        if length > 63:
            raise ValueError("a question has no compressed names")
        labels.append(message[place + 1 : place + 1 + length].decode("ascii"))
        place += 1 + length
    return ".".join(labels), place + 1


class ApiReader:
    """Gets objects of the API, and remembers each for a second."""

    def __init__(self, address: str, certificate: Path, authority: Path) -> None:
        self._address = address
        self._context = ssl.create_default_context(cafile=str(authority))
        self._context.load_cert_chain(f"{certificate}.pem", f"{certificate}.key")
        self._known: dict[str, tuple[float, dict[str, Any] | None]] = {}

    def __call__(self, path: str) -> dict[str, Any] | None:
        """Raises `OSError` while the API server does not answer."""
        known = self._known.get(path)
        if known is not None and time.monotonic() - known[0] < _LIFETIME_S:
            return known[1]
        connection = http.client.HTTPSConnection(self._address, API_PORT, timeout=4, context=self._context)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            content = response.read()
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()
        if response.status not in (200, 404):
            raise ConnectionError(f"the API server answers {response.status}")
        found: dict[str, Any] | None = json.loads(content) if response.status == 200 else None
        self._known[path] = (time.monotonic(), found)
        return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", required=True)
    parser.add_argument("--certificate", required=True, type=Path)
    parser.add_argument("--authority", required=True, type=Path)
    options = parser.parse_args()
    names = Names(ApiReader(options.listen, options.certificate, options.authority))

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            query, connection = self.request
            try:
                connection.sendto(answer(query, names), self.client_address)
            except (ValueError, IndexError, struct.error):
                return  # What is no query gets no answer.

    class Server(socketserver.ThreadingUDPServer):
        daemon_threads = True

    with Server((options.listen, PORT), Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
