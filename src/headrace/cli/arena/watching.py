"""`arena wait`, `attach`, `top`, `data list`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import typer

from headrace.cli import printer
from headrace.cli.arena import backend_choice, output, waiting
from headrace.cli.arena.flags import Values, Words, flag
from headrace.cli.arena.get import kind_of, namespace_of
from headrace.cli.arena.shared_flags import ALL_NAMESPACES, OUTPUT, TYPE, WHERE
from headrace.errors import ConfigError, MissingFileError
from headrace.jobs import layouts
from headrace.jobs.documents import claim_document, job_document, node_document
from headrace.jobs.flag_values import parse_seconds
from headrace.jobs.job_choice import matching, the_instance

WAIT_FLAGS = (
    flag("--timeout", str, "Timeout; without it until the end.", metavar="DURATION"),
    TYPE,
    *WHERE,
)
ATTACH_FLAGS = (
    flag("--instance -i", str, "The instance; without it the chief.", metavar="NAME"),
    flag("--container -c", str, "The container of the pod.", metavar="NAME"),
    TYPE,
    *WHERE,
)
_REFRESH = flag("--refresh -r", bool, "Again every two seconds, until Ctrl-C.")
TOP_JOB_FLAGS = (
    TYPE,
    flag("--instance -i", str, "Only this instance of the job.", metavar="NAME"),
    ALL_NAMESPACES,
    OUTPUT,
    _REFRESH,
    *WHERE,
)
TOP_NODE_FLAGS = (OUTPUT, _REFRESH, *WHERE)
DATA_FLAGS = (ALL_NAMESPACES, OUTPUT, *WHERE)
SHELL = Words("command", "[COMMAND [WORD]...]", "Behind --; without it `sh`.", several=True, optional=True)

_REFRESH_S = 2.0


def wait(values: Values) -> None:
    """Wait for the end of jobs: 0 when all succeeded, 1 when one failed, 124 when the time is over."""
    timeout_s = parse_seconds(values["timeout"], "--timeout") if values["timeout"] else None
    kind = kind_of(values)
    backend = backend_choice.backend_of(values)
    names = list(dict.fromkeys(values["jobs"]))
    waiting.wait_for_end(backend, namespace_of(backend, values), names, kind, timeout_s)


def attach(values: Values) -> None:
    """Run a program in a running instance of a job, with this terminal."""
    kind = kind_of(values)
    backend = backend_choice.backend_of(values)
    job = backend.get(namespace_of(backend, values), values["job"], kind)
    instance = the_instance(job, values["instance"]).name
    code = backend.attach(job, instance, values["container"], values["command"] or ["sh"])
    if code:
        raise typer.Exit(code)


def top_job(values: Values) -> None:
    """Show the GPUs that jobs asked for and have."""
    form, kind = output.check_form(values["output"]), kind_of(values)
    if values["instance"] and not values["job"]:
        raise ConfigError.of("--instance needs the job that it is of", hint="arena top job JOB -i worker-0")
    backend = backend_choice.backend_of(values)
    everywhere = values["all_namespaces"]

    def show() -> None:
        now = datetime.now(UTC)
        if values["job"]:
            job = backend.get(namespace_of(backend, values), values["job"], kind)
            if values["instance"]:
                job = replace(job, instances=(the_instance(job, values["instance"]),))
            if form in ("json", "yaml"):
                output.document(job_document(job, now), form)
            else:
                printer.data(layouts.top_instances_text(job, now))
            return
        jobs = matching(backend.jobs(None if everywhere else namespace_of(backend, values), kind), ())
        if form in ("json", "yaml"):
            output.document([job_document(job, now) for job in jobs], form)
        else:
            printer.data(layouts.top_job_text(jobs, now, with_namespace=everywhere))

    _again(show, wanted=values["refresh"])


def top_node(values: Values) -> None:
    """Show the GPUs of nodes, and how many of them are taken."""
    form, wanted = output.check_form(values["output"]), values["nodes"]
    backend = backend_choice.backend_of(values)

    def show() -> None:
        nodes = backend.nodes()
        missing = set(wanted) - {node.name for node in nodes}
        if missing:
            raise MissingFileError.of(f"node {min(missing)} is not there", hint="arena top node")
        nodes = [node for node in nodes if not wanted or node.name in wanted]
        if form in ("json", "yaml"):
            output.document([node_document(node) for node in nodes], form)
        else:
            printer.data(layouts.top_node_text(nodes))

    _again(show, wanted=values["refresh"])


def data_list(values: Values) -> None:
    """Show the volumes that --data may name now, datasets with the part that is cached."""
    form = output.check_form(values["output"])
    backend = backend_choice.backend_of(values)
    everywhere = values["all_namespaces"]
    claims = layouts.usable(backend.claims(None if everywhere else namespace_of(backend, values)))
    now = datetime.now(UTC)
    if form in ("json", "yaml"):
        output.document([claim_document(claim, now) for claim in claims], form)
    else:
        printer.data(layouts.data_list_text(claims, now, with_namespace=everywhere))


def _again(show: Callable[[], None], *, wanted: bool) -> None:
    show()
    while wanted:
        printer.flush()
        time.sleep(_REFRESH_S)
        printer.data("")
        show()
