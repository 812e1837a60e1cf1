"""The page of a copy that runs: how far it is, for anybody, and nothing else."""

from __future__ import annotations

import json
import socket
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from headrace.engine.status import JobReport
from headrace.errors import BusyError
from headrace.roles.pages.progress_page import ProgressPage
from headrace.roles.processes.progress import ProgressFile


def test_who_asks_is_told_the_numbers_and_no_names() -> None:
    progress = ProgressFile(None)
    page = ProgressPage("127.0.0.1:0", lambda: progress.numbers)
    url = f"http://127.0.0.1:{page.port}/v1/progress"
    try:
        with pytest.raises(HTTPError, match="404"):
            urlopen(url)
        report = JobReport(
            done_bytes=5, total_bytes=10, done_files=1, total_files=2, errors=("secret/plan: gone",)
        )
        progress.tell(report)
        with urlopen(url) as answer:
            told = json.loads(answer.read())
        with pytest.raises(HTTPError, match="404"):
            urlopen(url.replace("progress", "other"))
    finally:
        page.close()
    assert (told["done_bytes"], told["total_files"], told["faults"]) == (5, 2, 1)
    assert "secret" not in json.dumps(told)


def test_an_address_that_is_taken_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BusyError, match="to tell the progress"):
            ProgressPage(f"127.0.0.1:{taken.getsockname()[1]}", str)
