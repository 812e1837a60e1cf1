"""The pages of a mount or worker: `/metrics` for Prometheus, `/healthz` for whoever restarts processes.

`/healthz` waits for nobody, and least of all for those who ask for `/metrics`: else a process would be restarted for
being asked too much.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from headrace.openmetrics import OPEN_METRICS
from headrace.roles.pages.page_request import Page
from headrace.roles.pages.pages import Pages


class Endpoint(Pages):
    """Answers until it is closed: `healthy` is asked in one thread, `metrics` in another."""

    def __init__(
        self, address: str, metrics: Callable[[], str], healthy: Callable[[], bool], word: str = "mounted"
    ) -> None:
        """Listens; `word` says what a healthy process is. Raises `BusyError`."""

        def answer(path: str) -> Page:
            if path == "/metrics":
                return Page(HTTPStatus.OK, metrics(), OPEN_METRICS)
            if path != "/healthz":
                return Page(HTTPStatus.NOT_FOUND, "try /metrics or /healthz\n")
            if healthy():
                return Page(HTTPStatus.OK, f"{word}\n")
            return Page(HTTPStatus.SERVICE_UNAVAILABLE, f"not {word}\n")

        super().__init__(
            address, answer, purpose="for metrics", setting="--metrics-address", slow=frozenset({"/metrics"})
        )
