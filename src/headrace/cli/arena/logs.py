"""`arena logs`: what a job's processes wrote, also of those that are gone."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

from headrace.api.times import parse_time
from headrace.cli import printer
from headrace.cli.arena import backend_choice
from headrace.cli.arena.flags import Values, flag
from headrace.cli.arena.get import kind_of, namespace_of
from headrace.cli.arena.shared_flags import TYPE, WHERE
from headrace.errors import ConfigError
from headrace.jobs.backend import LogWish
from headrace.jobs.flag_values import parse_seconds
from headrace.jobs.job_choice import the_instance

FLAGS = (
    flag("--follow -f", bool, "Go on with what is written, to the job's end."),
    flag("--tail -t", int, "Only so many last lines; 0 or less: all.", -1),
    flag("--since", str, "Only what is not older: 1h2m3s.", metavar="DURATION"),
    flag("--since-time", str, "Only what was written after a moment: 2026-01-31T09:30:00Z.", metavar="TIME"),
    flag("--timestamps", bool, "Each line with its moment."),
    flag("--instance -i", str, "The instance; without it the chief: launcher, master.", metavar="NAME"),
    flag("--container -c", str, "The container of the pod.", metavar="NAME"),
    flag("--all-instances", bool, "Of all instances, each line behind its instance's name."),
    TYPE,
    *WHERE,
)


def logs(values: Values) -> None:
    """Show what a job's processes wrote."""
    kind, since = kind_of(values), _since(values)
    if values["all_instances"] and values["instance"]:
        raise ConfigError.of(
            "one instance is named, or all are meant", hint="leave -i or --all-instances out"
        )
    backend = backend_choice.backend_of(values)
    job = backend.get(namespace_of(backend, values), values["job"], kind)
    instance = "" if values["all_instances"] else the_instance(job, values["instance"]).name
    wish = LogWish(
        instance=instance,
        container=values["container"],
        follow=values["follow"],
        tail=values["tail"] if values["tail"] > 0 else None,
        since=since,
        timestamps=values["timestamps"],
        all_instances=values["all_instances"],
    )
    sys.stdout.flush()
    for line in backend.logs(job, wish):
        # Bytes as they were written: nobody promised that they are text.
        sys.stdout.buffer.write(line)
        if wish.follow:
            sys.stdout.buffer.flush()
    printer.flush()


def _since(values: Values) -> datetime | None:
    if values["since"] and values["since_time"]:
        raise ConfigError.of("--since and --since-time say the same", hint="leave one of them out")
    if values["since"]:
        return datetime.now(UTC) - timedelta(seconds=parse_seconds(values["since"], "--since"))
    if not values["since_time"]:
        return None
    try:
        return parse_time(values["since_time"])
    except ValueError as error:
        raise ConfigError.of(f"--since-time {values['since_time'][:64]} {error}") from None
