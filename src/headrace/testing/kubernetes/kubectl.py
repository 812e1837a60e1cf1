"""The real kubectl, for a cluster of a kubeconfig."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.testing.kubernetes.programs import program

# Each look is a process, and many tests look at the same time.
_POLL_S = 0.8


class KubectlError(RuntimeError):
    """kubectl failed; the message holds its own words."""


class Kubectl:
    """Calls kubectl and gives back what it prints."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        built = program("kubectl")
        self._program = built if Path(built).exists() else "kubectl"

    def __call__(self, *words: str, stdin: str | None = None, timeout_s: float = 330) -> str:
        """What it prints; `KubectlError` with its own words when it fails."""
        done = subprocess.run(
            self.command(*words), input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        if done.returncode != 0:
            raise KubectlError(f"`kubectl {' '.join(words)}` failed: {done.stderr.strip()}")
        return done.stdout

    def wait_until_established(self, *which: str, timeout_s: float = 300) -> None:
        """Waits until custom resource definitions can be used; `KubectlError` when they cannot be for too long.

        Asks again while they have no conditions at all yet: kubectl takes that for a fault.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self("wait", "--for=condition=Established", *which, f"--timeout={timeout_s:.0f}s")
                return
            except KubectlError as error:
                if "accessor error" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(_POLL_S)

    def command(self, *words: str) -> tuple[str, ...]:
        """The command, for what runs longer, such as a port-forward."""
        return (self._program, "--kubeconfig", str(self.kubeconfig), *words)

    def get(self, *words: str) -> dict[str, Any]:
        """`kubectl get … -o json`, read."""
        shown: dict[str, Any] = json.loads(self("get", *words, "-o", "json"))
        return shown

    def apply(self, *objects: dict[str, Any], namespace: str | None = None) -> None:
        """Applies objects on the server's side; none of them may name another namespace than the one given."""
        shown = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        place = ("-n", namespace) if namespace else ()
        self("apply", "--server-side", "--force-conflicts", *place, "-f", "-", stdin=shown)

    def wait(self, is_so: Callable[[], bool], what: str, *, timeout_s: float = 300) -> None:
        """Returns once `is_so`; what kubectl cannot tell yet counts as not so."""
        deadline, said = time.monotonic() + timeout_s, ""
        while True:
            try:
                if is_so():
                    return
            except (KubectlError, subprocess.TimeoutExpired) as error:
                said = f": {error}"
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} did not happen within {timeout_s:g} s{said}")
            time.sleep(_POLL_S)
