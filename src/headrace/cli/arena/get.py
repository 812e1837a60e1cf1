"""`arena get` and `arena list`."""

from __future__ import annotations

from datetime import UTC, datetime

from headrace.cli import printer
from headrace.cli.arena import backend_choice, output
from headrace.cli.arena.flags import Values, Words, flag
from headrace.cli.arena.shared_flags import ALL_NAMESPACES, OUTPUT, TYPE, WHERE
from headrace.errors import ConfigError
from headrace.jobs.backend import JobBackend
from headrace.jobs.documents import job_document
from headrace.jobs.flag_values import parse_kind
from headrace.jobs.job_choice import matching
from headrace.jobs.layouts import get_text, list_text
from headrace.jobs.spec import JobKind
from headrace.jobs.views import JobPhase

JOB = Words("job", "JOB", "The job's name.")
GET_FLAGS = (
    TYPE,
    flag("--events -e", bool, "Events of the job and its instances."),
    flag("--gpus -g", bool, "The GPUs of each instance; how busy they are is not measured."),
    OUTPUT,
    *WHERE,
)
LIST_FLAGS = (
    TYPE,
    ALL_NAMESPACES,
    OUTPUT,
    flag(
        "--status",
        list,
        "Only jobs in this state: running, pending, failed, …; again for more.",
        metavar="STATUS",
    ),
    *WHERE,
)


def get(values: Values) -> None:
    """Show a job: its state, how long it trains, its instances; with -o wide what reading its data cost."""
    form, kind = output.check_form(values["output"]), kind_of(values)
    backend = backend_choice.backend_of(values)
    job = backend.get(namespace_of(backend, values), values["job"], kind, events=values["events"])
    now = datetime.now(UTC)
    if form in ("json", "yaml"):
        output.document(job_document(job, now), form)
    else:
        asked = {"gpus": values["gpus"], "events": values["events"]}
        printer.data(get_text(job, now, wide=form == "wide", **asked))


def list_jobs(values: Values) -> None:
    """Show all jobs, the newest first; with -o wide what reading their data cost."""
    form, kind, statuses = output.check_form(values["output"]), kind_of(values), _phases(values["status"])
    backend = backend_choice.backend_of(values)
    everywhere = values["all_namespaces"]
    found = backend.jobs(None if everywhere else namespace_of(backend, values), kind)
    jobs, now = matching(found, statuses), datetime.now(UTC)
    if form in ("json", "yaml"):
        output.document([job_document(job, now) for job in jobs], form)
    else:
        printer.data(list_text(jobs, now, wide=form == "wide", with_namespace=everywhere))


def kind_of(values: Values) -> JobKind | None:
    """The kind that --type names, if it does. Raises `ConfigError`."""
    return parse_kind(values["type"]) if values["type"] else None


def namespace_of(backend: JobBackend, values: Values) -> str:
    """The namespace that is meant."""
    return str(values["namespace"] or backend.default_namespace)


def _phases(words: list[str]) -> list[JobPhase]:
    known = {phase.value.lower(): phase for phase in JobPhase}
    unknown = [word for word in words if word.lower() not in known]
    if unknown:
        raise ConfigError.of(
            f"--status {unknown[0][:32]} is not a state", hint=f"known are {', '.join(known)}"
        )
    return [known[word.lower()] for word in words]
