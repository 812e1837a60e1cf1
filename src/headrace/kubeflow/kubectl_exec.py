"""Runs a program in a pod with this terminal, by the user's own kubectl, which knows terminals."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.errors import MissingFileError


@dataclass(frozen=True, slots=True)
class Place:
    """A container of a pod, and how its cluster is reached; what is empty is kubectl's own choice."""

    namespace: str
    pod: str
    container: str = ""
    kubeconfig: str = ""
    context: str = ""


def command_line(place: Place, command: Sequence[str], *, terminal: bool) -> list[str]:
    """The words for kubectl. The program's own words stay as they are."""
    options = {
        "--kubeconfig": place.kubeconfig,
        "--context": place.context,
        "--namespace": place.namespace,
        "--container": place.container,
    }
    given = [f"{key}={value}" for key, value in options.items() if value]
    return ["exec", "--stdin", *(["--tty"] if terminal else []), *given, place.pod, "--", *command]


def attach(place: Place, command: Sequence[str]) -> int:
    """The exit code of the program."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise MissingFileError.of(
            "attach needs kubectl, which is not on the PATH",
            hint="install the kubectl of your cluster's version",
        )
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    words = command_line(place, command, terminal=is_terminal)
    return subprocess.run([kubectl, *words], check=False).returncode
