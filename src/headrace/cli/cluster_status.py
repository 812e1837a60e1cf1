"""`headrace status --cluster URL`: the whole cluster as its master sees it; without a token its numbers alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from headrace.api.formats import format_percentage
from headrace.cli import printer
from headrace.cli.master_client import ask_master
from headrace.cli.role_settings import settings_of_role
from headrace.hit_ratio import hit_bytes
from headrace.roles.specs.resolved_settings import token_of
from headrace.settings.environment import Environment
from headrace.settings.roles import LoadSettings
from headrace.settings.sizes import format_size

_TEXTS = ("LOAD", "PATHS", "WORKER", "NODE", "STATE", "TIERS", "MOUNTPOINT")


def show(master: str, token_file: Path | None, *, json: bool) -> None:
    """Prints it."""
    environment = Environment.current()
    settings = settings_of_role(LoadSettings, None, environment, token_file=token_file)
    token = token_of(settings, environment)
    status = ask_master(master, token, lambda client: client.status())
    if not status.get("named", True):
        printer.say("names are shown to holders of a token: give --token-file, or set HEADRACE_TOKEN_FILE")
    if json:
        printer.as_json(status)
        return
    printer.data(f"{_text(status['cluster']) or '-'}  ({master})")
    printer.table(summary(status))
    for title, rows in (("workers", workers(status)), ("mounts", mounts(status)), ("loads", loads(status))):
        lines = list(columns(rows))
        if len(lines) > 1:
            printer.data(f"\n{title}")
            for line in lines:
                printer.data(f"  {line}")


def summary(status: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The lines above the tables."""
    for origin in status["origins"]:
        yield "origin", _text(origin)
    snapshot = status["snapshot"]
    if snapshot:
        size = format_size(snapshot["data_bytes"])
        yield "snapshot", f"version {snapshot['version']}: {snapshot['files']:,} files, {size}"
    else:
        yield "snapshot", "none yet"
    if status["refresh_error"]:
        yield "refresh", f"failed: {_text(status['refresh_error'])}"
    for notice in status.get("notices", ()):
        yield "listing", _text(notice)
    yield "epoch", f"{_epoch(status)}, {status['replicas']} of each block"
    yield "cached", f"{format_size(status['cached_bytes'])} of {format_size(status['capacity_bytes'])}"
    if status["throughput"]:
        _, local, peer, origin = status["throughput"][-1]
        yield "reads", f"local {_rate(local)}, peer {_rate(peer)}, origin {_rate(origin)}"
    if reads := status.get("last_minute"):
        yield "hits", _hits(reads["read_bytes"], reads["fetched_bytes"])


def _hits(read_bytes: int, fetched_bytes: int) -> str:
    """Those of the last minute."""
    share = format_percentage(hit_bytes(read_bytes, fetched_bytes), read_bytes) if read_bytes else "-"
    origin = f"{format_size(fetched_bytes)} from the origin for it"
    return f"{share} of {format_size(read_bytes)} read in the last minute; {origin}"


def _epoch(status: dict[str, Any]) -> str:
    if status["epoch"]:
        return str(status["epoch"])
    if waits_s := status.get("learns_for_s", 0.0):
        return f"none yet, as the master is new and waits up to {waits_s:.0f} s for its workers to report"
    return "none yet, as no worker has reported"


def workers(status: dict[str, Any]) -> Iterator[Sequence[str]]:
    """A head, and a line for each worker."""
    yield "WORKER", "NODE", "STATE", "CACHED", "CAPACITY", "HEARTBEAT", "TIERS"
    for worker in status["workers"]:
        tiers = ", ".join(_tier(level) for level in worker["levels"])
        yield (
            worker["id"],
            worker["node"],
            worker["state"],
            format_size(worker["cached_bytes"]),
            format_size(worker["capacity_bytes"]),
            _age(worker["heartbeat_age_s"]),
            tiers or "-",
        )


def _tier(level: dict[str, Any]) -> str:
    used = f"{level['medium']} {format_size(level['used_bytes'])}/{format_size(level['quota_bytes'])}"
    return f"{used} ({_text(level['trouble'])})" if level.get("trouble") else used


def mounts(status: dict[str, Any]) -> Iterator[Sequence[str]]:
    """A head, and a line for each mount."""
    yield "NODE", "MOUNTPOINT", "SNAPSHOT", "HEARTBEAT"
    for mount in status["mounts"]:
        age = _age(mount["heartbeat_age_s"])
        yield mount["node"], mount["mountpoint"], str(mount["snapshot_version"]), age


def loads(status: dict[str, Any]) -> Iterator[Sequence[str]]:
    """A head, and a line for each of the latest loads."""
    yield "LOAD", "STATE", "DONE", "TOTAL", "FILES", "PATHS"
    for load in status["loads"]:
        more = f" and {load['more_paths']} more" if load["more_paths"] else ""
        action = "" if load["action"] == "load" else f"{load['action']}: "
        incomplete = load["state"] == "done" and not load["complete"]
        yield (
            load["id"],
            f"{load['state']}, incomplete" if incomplete else load["state"],
            format_size(load["done_bytes"]),
            format_size(load["total_bytes"]),
            f"{load['done_files']:,}/{load['total_files']:,}",
            action + ", ".join(load["paths"]) + more,
        )


def columns(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The rows as lines, the first one being the head: numbers to the right, texts to the left."""
    table = [[_text(cell) or "-" for cell in row] for row in rows]
    widths = [max(len(row[number]) for row in table) for number in range(len(table[0]))]
    texts = [word in _TEXTS for word in table[0]]
    for row in table:
        cells = [
            cell.ljust(width) if text else cell.rjust(width)
            for cell, width, text in zip(row, widths, texts, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def _age(seconds: float | None) -> str:
    return "not yet" if seconds is None else f"{seconds:.0f}s"


def _rate(bytes_per_s: float) -> str:
    return f"{format_size(int(bytes_per_s))}/s"


def _text(text: str) -> str:
    """Names are whatever their owners chose: none may move the cursor."""
    return printer.visible(text.encode("utf-8", "surrogateescape"))
