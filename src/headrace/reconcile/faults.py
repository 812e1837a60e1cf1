"""The faults of one pass: what one part cannot do stops no other."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from headrace.errors import HeadraceError


@dataclass(slots=True)
class Part:
    """How one part of a pass went."""

    fault: Exception | None = None


@dataclass(slots=True)
class Faults:
    """The faults so far. `outdated` are those that say that something was written since it was read."""

    outdated: tuple[type[Exception], ...] = ()
    found: list[Exception] = field(default_factory=list)

    @contextmanager
    def part(self) -> Iterator[Part]:
        """Goes on after an error, which is noted; each of a group counts by itself."""
        part = Part()
        try:
            yield part
        except ExceptionGroup as group:
            part.fault = group
            self.found += _leaves(group)
        except Exception as error:
            part.fault = error
            self.found.append(error)

    @property
    def is_outdated(self) -> bool:
        """True when what was read is not what is there any more."""
        return any(isinstance(each, self.outdated) for each in self.found)

    def log(self, log: logging.Logger, title: str) -> None:
        """Tells of all of them; raises the first that is a fault of Headrace's own."""
        own = [each for each in self.found if not isinstance(each, HeadraceError)]
        for fault in self.found:
            if fault not in own[:1]:
                log.warning("dataset/%s: %s", title, fault)
        if own:
            raise own[0]

    def raise_all(self) -> None:
        """Raises what was noted, for whoever notes it elsewhere."""
        if self.found:
            raise ExceptionGroup("some of it failed", self.found)


def _leaves(group: ExceptionGroup[Exception]) -> Sequence[Exception]:
    return [
        leaf
        for each in group.exceptions
        for leaf in (_leaves(each) if isinstance(each, ExceptionGroup) else [each])
    ]
