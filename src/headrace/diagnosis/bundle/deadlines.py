"""Questions to programs that may not answer any more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from headrace.errors import DeadlineError

_T = TypeVar("_T")


def within(seconds: float, ask: Callable[[], _T], what: str) -> _T:
    """The answer of `ask`. Raises what it raises, and `DeadlineError` when it takes longer: it is left alone then, and
    ends with this process.
    """
    answers: list[_T] = []
    faults: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(ask())
        except BaseException as error:
            faults.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if faults:
        raise faults[0]
    if not answers:
        raise DeadlineError.of(f"{what} did not answer within {seconds:g} s")
    return answers[0]
