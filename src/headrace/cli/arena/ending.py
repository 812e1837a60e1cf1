"""`arena delete`, `prune`, `release`: jobs end, and what was made for them goes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from headrace.cli import printer
from headrace.cli.arena import backend_choice, output
from headrace.cli.arena.flags import Values, flag
from headrace.cli.arena.get import kind_of, namespace_of
from headrace.cli.arena.shared_flags import ALL_NAMESPACES, TYPE, WHERE
from headrace.errors import ConfigError, HeadraceError
from headrace.exits import complaint, exit_code
from headrace.jobs.backend import JobBackend
from headrace.jobs.flag_values import parse_seconds
from headrace.jobs.job_choice import prunable
from headrace.jobs.layouts import deleted_line
from headrace.jobs.views import JobView

DELETE_FLAGS = (TYPE, *WHERE)
PRUNE_FLAGS = (
    ALL_NAMESPACES,
    flag("--since -s", str, "Jobs that ended so long ago: 24h, 7d.", metavar="DURATION"),
    flag("--dry-run", bool, "Only name them."),
    *WHERE,
)


def delete(values: Values) -> None:
    """End jobs and delete them, with all that was made for them. Data is never touched."""
    kind = kind_of(values)
    backend = backend_choice.backend_of(values)
    namespace = namespace_of(backend, values)
    failed = 0
    for name in dict.fromkeys(values["jobs"]):
        try:
            _delete(backend, backend.get(namespace, name, kind))
        except HeadraceError as error:
            # The others shall go all the same.
            printer.say(complaint(error))
            failed = failed or int(exit_code(error))
    if failed:
        raise output.Told(failed)


def prune(values: Values) -> None:
    """Delete jobs that ended long ago. Jobs that wait or run stay, however old they are."""
    if not values["since"]:
        raise ConfigError.of("--since is missing: how long ago must a job have ended?", hint="--since 7d")
    older_than_s = parse_seconds(values["since"], "--since")
    backend = backend_choice.backend_of(values)
    found = backend.jobs(None if values["all_namespaces"] else namespace_of(backend, values))
    jobs = prunable(found, older_than_s, datetime.now(UTC))
    if not jobs:
        printer.say("no job ended so long ago")
    if values["dry_run"]:
        _name(jobs)
        return
    for job in jobs:
        _delete(backend, job)


def release(values: Values) -> None:
    """Start a job that waits for its data or is suspended, or free the volumes that an ended one still holds."""
    kind = kind_of(values)
    backend = backend_choice.backend_of(values)
    done = backend.release(backend.get(namespace_of(backend, values), values["job"], kind))
    for sentence in done:
        printer.data(sentence)
    if not done:
        printer.say(f"job {values['job']} waits for nothing, and holds nothing")


def _delete(backend: JobBackend, job: JobView) -> None:
    for name in backend.delete(job):
        printer.data(deleted_line(name))
    printer.flush()
    output.info(f"The training job {job.name} has been deleted successfully")


def _name(jobs: Iterable[JobView]) -> None:
    for job in jobs:
        printer.data(f"{job.kind.value} {job.namespace}/{job.name} {job.phase.value}")
