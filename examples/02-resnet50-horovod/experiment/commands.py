"""The commands that the experiment types, with an environment of its own, and kept for the report."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

TIMEOUT_S = 120


class CommandError(RuntimeError):
    """A command failed; the message holds what it said, `code` its exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Commands:
    """Runs `headrace` and `arena` on a backend of its own: nothing of the user's own is touched."""

    state: Path
    shown: list[str] = field(default_factory=list)
    """Every command once, in order, as a user would type it."""

    def run(self, *words: str, timeout_s: float = TIMEOUT_S, show: bool = True) -> str:
        """Its output. Raises `CommandError`."""
        if show:
            self._show(words)
        done = subprocess.run(
            [program(words[0]), *words[1:]],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()[-2000:]
            raise CommandError(f"`{' '.join(words)}` ended with {done.returncode}: {said}", done.returncode)
        return done.stdout

    def lines(self, *words: str) -> Iterator[str]:
        """What it prints, line by line as it comes; whatever its exit code."""
        self._show(words)
        process = subprocess.Popen(
            [program(words[0]), *words[1:]],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
        )
        try:
            yield from process.stdout or ()
        finally:
            process.kill()
            process.wait()

    def environment(self) -> Mapping[str, str]:
        """The caller's, but for the places where Headrace keeps things."""
        return environment_of(self.state)

    def _show(self, words: tuple[str, ...]) -> None:
        text = " ".join(words).replace(f"{self.state.parent}/", "")
        if text not in self.shown:
            self.shown.append(text)


def environment_of(state: Path) -> dict[str, str]:
    """That of commands whose backend lives in this folder."""
    config = state / "headrace.toml"
    state.mkdir(parents=True, exist_ok=True)
    config.touch()
    places = {"HEADRACE_STATE_DIR": state, "HEADRACE_RUNTIME_DIR": state / "run", "HEADRACE_CONFIG": config}
    return {**os.environ, **{name: str(place) for name, place in places.items()}, "NO_COLOR": "1"}


def program(name: str) -> str:
    """The one beside this Python, else the one on PATH."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else (shutil.which(name) or name)
