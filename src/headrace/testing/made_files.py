"""Files of a test, made when it asks for one of them: who only collects tests, as every runner does, makes none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping


class MadeFiles(Mapping[str, bytes]):
    """Names and contents; each content is made once, when it is first asked for."""

    def __init__(self, makers: Mapping[str, Callable[[], bytes]]) -> None:
        self._makers = makers
        self._made: dict[str, bytes] = {}

    def __getitem__(self, name: str) -> bytes:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)
