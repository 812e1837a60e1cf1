"""The page of a copy that says how far it is: `GET /v1/progress`. Numbers alone, since it asks nobody who they are."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from headrace.roles.pages.page_request import Page
from headrace.roles.pages.pages import Pages

PATH = "/v1/progress"
_JSON = "application/json"


class ProgressPage(Pages):
    """Answers from a thread of its own until it is closed. `read` is called there; empty: nothing is known yet."""

    def __init__(self, address: str, read: Callable[[], str]) -> None:
        """Listens. Raises `BusyError`."""

        def answer(path: str) -> Page:
            text = read() if path == PATH else ""
            return Page(HTTPStatus.OK if text else HTTPStatus.NOT_FOUND, text, _JSON)

        super().__init__(address, answer, purpose="to tell the progress", setting="progress_address")
