"""Readers on nodes: started, watched while they read, and their lines understood."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headrace.testing.cluster import reader
from headrace.testing.cluster.node import Node
from headrace.testing.cluster.reader import FileRead, Summary
from headrace.testing.processes import ServerProcess

# As a file of its own: it needs nothing of the package, nor of what is installed.
PROGRAM = (sys.executable, "-I", "-S", str(Path(reader.__file__)))
POLL_INTERVAL_S = 0.02

_numbers = itertools.count()


class Reading:
    """A reader that runs, or has run, on a node."""

    def __init__(
        self, node: Node, root: Path, *words: str, only: Sequence[str] = (), endless: bool = False
    ) -> None:
        """`words` are the reader's own flags; `only` names files below the root.

        An `endless` one reads everything again and again, until that was `enough`: what is to happen meanwhile does,
        however fast the machine is.
        """
        self.node = node
        name = f"reader-{next(_numbers)}"
        self._enough = node.state_folder / f"{name}.enough"
        chosen = [word for path in only for word in ("--only", path)]
        if endless:
            chosen += ["--until", str(self._enough)]
        command = [*PROGRAM, str(root), *words, *chosen]
        self.process: ServerProcess = node.run(command, name=name)

    def enough(self) -> None:
        """It ends with the pass that it is at."""
        self._enough.touch()

    def files(self) -> list[FileRead]:
        """The files read so far."""
        return [FileRead(**line["file"]) for line in self._lines() if "file" in line]

    def wait_for_files(self, count: int, *, timeout_s: float = 120) -> None:
        """Returns when so many files have been read."""
        self._wait(lambda: len(self.files()) >= count, f"{count} files", timeout_s)

    def finish(self, *, timeout_s: float = 180) -> Summary:
        """The summary, when all has been read; TimeoutError when that takes too long."""
        self._wait(lambda: not self.process.is_running(), "the end", timeout_s)
        for line in self._lines():
            if "summary" in line:
                waits = {int(bucket): count for bucket, count in line["summary"].pop("waits").items()}
                return Summary(**line["summary"], waits=waits)
        raise RuntimeError(f"a reader on {self.node.name} broke off: {self.process.log_tail()}")

    def _wait(self, is_done: Callable[[], bool], what: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not is_done():
            if time.monotonic() > deadline:
                done = self.files()
                self.process.kill()
                raise TimeoutError(
                    f"a reader on {self.node.name} waited for {what} for {timeout_s:g} s; "
                    f"it had read {len(done)} files"
                )
            if not self.process.is_running() and what != "the end" and not is_done():
                raise RuntimeError(
                    f"a reader on {self.node.name} ended before {what}: {self.process.log_tail()}"
                )
            time.sleep(POLL_INTERVAL_S)

    def _lines(self) -> list[dict[str, dict[str, Any]]]:
        text = self.process.log_path.read_text(errors="replace")
        whole = text[: text.rfind("\n") + 1].splitlines()
        return [json.loads(line) for line in whole if line.startswith("{")]
