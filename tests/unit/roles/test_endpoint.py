from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from headrace.errors import BusyError, ConfigError
from headrace.openmetrics import OPEN_METRICS
from headrace.roles.pages.endpoint import Endpoint
from headrace.settings.addresses import parse_address


class Service:
    """What the endpoint shows."""

    healthy = True

    def metrics(self) -> str:
        return "headrace_fills_total 1\n# EOF\n"


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def endpoint(service: Service) -> Iterator[Endpoint]:
    endpoint = Endpoint("127.0.0.1:0", service.metrics, lambda: service.healthy)
    yield endpoint
    endpoint.close()


def get(endpoint: Endpoint, path: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}{path}", timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def test_metrics_and_health_answer(endpoint: Endpoint, service: Service) -> None:
    assert get(endpoint, "/metrics?x=1") == (200, OPEN_METRICS, "headrace_fills_total 1\n# EOF\n")
    assert get(endpoint, "/healthz")[::2] == (200, "mounted\n")
    service.healthy = False
    assert get(endpoint, "/healthz")[::2] == (503, "not mounted\n")
    assert get(endpoint, "/other")[0] == 404


def test_port_that_is_taken_is_an_error_with_a_hint(endpoint: Endpoint, service: Service) -> None:
    with pytest.raises(BusyError, match="cannot listen") as caught:
        Endpoint(f"127.0.0.1:{endpoint.port}", service.metrics, lambda: True)
    assert "--metrics-address" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "parts"), [("127.0.0.1:1", ("127.0.0.1", 1)), ("[::1]:9100", ("::1", 9100)), (":80", ("", 80))]
)
def test_address_is_taken_apart(text: str, parts: tuple[str, int]) -> None:
    assert parse_address(text) == parts


@pytest.mark.parametrize("text", ["", "9100", "host:", "host:x", "host:65536", "host:-1", "host:²"])
def test_wrong_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not HOST:PORT"):
        parse_address(text)
