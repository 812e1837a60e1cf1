"""Network namespaces: made, listed, and removed with all that runs in them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

from headrace.netns.commands import run_command, try_command
from headrace.netns.owners import is_stale


def can_make_namespaces() -> bool:
    """True as root, on a kernel with network namespaces."""
    return os.geteuid() == 0 and Path("/proc/self/ns/net").exists()


def make_namespace(name: str) -> None:
    """A namespace with nothing but its loopback."""
    run_command("ip", "netns", "add", name)
    run_command("ip", "-n", name, "link", "set", "lo", "up")


def namespaces() -> list[str]:
    """The names of all namespaces that have one."""
    listed = run_command("ip", "-j", "netns", "list")
    return [entry["name"] for entry in json.loads(listed or "[]")]


def end_processes(namespace: str) -> None:
    """Kills everything that runs in a namespace, at once."""
    listed = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
    for pid in listed.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def remove_namespace(name: str) -> None:
    """Kills what runs in it and removes it, and its veth pairs with it. One that is gone is no error."""
    end_processes(name)
    try_command("ip", "netns", "delete", name)


def remove_stale_namespaces() -> None:
    """Removes what processes that are gone left behind under their own names, with all that runs inside."""
    for name in namespaces():
        if is_stale(name):
            remove_namespace(name)


def enter_prefix(name: str) -> tuple[str, ...]:
    """The words before a command that shall run in a namespace."""
    # Not `ip netns exec`: it would give each process mounts of its own, which nobody else sees.
    return ("nsenter", f"--net=/run/netns/{name}")
