"""Questions to the processes of mounts, which may be silent for as long as they like."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

ANSWER_S = 3.0

T = TypeVar("T")


@dataclass(frozen=True)
class _Question(Generic[T]):
    """One that a mount was asked; whoever wants to know the same meanwhile waits for the same answer."""

    answer: Future[T] = field(default_factory=Future)
    begun_s: float = field(default_factory=time.monotonic)

    @property
    def left_s(self) -> float:
        return max(0.0, self.begun_s + ANSWER_S - time.monotonic())

    @property
    def is_overdue(self) -> bool:
        return self.left_s == 0.0


class MountQuestions(Generic[T]):
    """Questions of one kind: a mount that is silent keeps one thread, whoever asks and however often.

    No pool: a silent mount keeps its thread until it answers or ends, and threads of a pool are missed by all others.
    """

    def __init__(self) -> None:
        self._open: dict[Hashable, _Question[T]] = {}
        self._lock = threading.Lock()

    async def ask(self, mount: Hashable, question: Callable[[], T]) -> T:
        """The result or the exception of `question`; `TimeoutError` when a few seconds have passed.

        Waits not at all for a mount that an earlier question still waits for.
        """
        asked = self._begin(mount, question)
        if asked.is_overdue and not asked.answer.done():
            raise TimeoutError(f"{mount} is still silent")
        done, _ = await asyncio.wait([asyncio.wrap_future(asked.answer)], timeout=asked.left_s)
        if not done:
            raise TimeoutError(f"{mount} does not answer")
        return asked.answer.result()

    def _begin(self, mount: Hashable, question: Callable[[], T]) -> _Question[T]:
        """The question that this mount is being asked; a new one on a thread of its own when there is none."""
        with self._lock:
            asked = self._open.get(mount)
            if asked is None:
                asked = self._open[mount] = _Question()
                arguments = (mount, question, asked)
                threading.Thread(
                    target=self._wait_for_answer, args=arguments, name=f"asks {mount}", daemon=True
                ).start()
        return asked

    def _wait_for_answer(self, mount: Hashable, question: Callable[[], T], asked: _Question[T]) -> None:
        try:
            answer = question()
        except Exception as error:
            self._end(mount)
            asked.answer.set_exception(error)
        else:
            self._end(mount)
            asked.answer.set_result(answer)

    def _end(self, mount: Hashable) -> None:
        with self._lock:
            del self._open[mount]
