"""`headrace prune`: the states of mounts that are gone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from headrace.api.go_durations import parse_duration
from headrace.cli import options, printer
from headrace.cli.left_here import UNUSED_S, left_here
from headrace.engine.left_states import LeftState, remove
from headrace.errors import EngineError
from headrace.settings.environment import Environment
from headrace.settings.sizes import format_size


def run(
    unused_for: Annotated[
        str, typer.Option(metavar="DURATION", help="Only what nobody used for so long, such as 30m or 24h.")
    ] = f"{UNUSED_S / 3600:g}h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go, and leave it.")] = False,
    json: options.Json = False,
) -> None:
    """Remove the states of mounts that are gone: lists of files and logs. Caches and data stay."""
    found = left_here(Environment.current(), unused_for_s=parse_duration(unused_for))
    gone = found if dry_run else [state for state in found if _removed(state)]
    if json:
        printer.as_json([_as_json(state) for state in gone])
        return
    for state in gone:
        used = datetime.fromtimestamp(state.used_at_s, UTC).strftime("%Y-%m-%d %H:%MZ")
        printer.data(f"{state.path}  {format_size(state.size_bytes)}, last used {used}")
    size = format_size(sum(state.size_bytes for state in gone))
    printer.say(
        f"{'would remove' if dry_run else 'removed'} {len(gone)} states of mounts that are gone, {size}"
    )


def _removed(state: LeftState) -> bool:
    try:
        return remove(state)
    except OSError as error:
        raise EngineError.of(
            f"{state.path} cannot be removed: {error.strerror}", hint="remove it as the user who mounted"
        ) from None


def _as_json(state: LeftState) -> dict[str, object]:
    return {"path": str(state.path), "size_bytes": state.size_bytes, "used_at_s": state.used_at_s}
