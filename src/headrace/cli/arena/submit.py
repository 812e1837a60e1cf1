"""`arena submit`: a request is understood, checked, created, and waited for if that is wished."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headrace.cli import printer
from headrace.cli.arena import backend_choice, output, waiting
from headrace.cli.arena.flags import Values, Words, command
from headrace.cli.arena.job_request import RequestContext, ignored, request_of
from headrace.cli.arena.submit_flags import OF_KIND
from headrace.errors import ConfigError, MissingFileError
from headrace.jobs.backend import JobBackend
from headrace.jobs.checking import faults
from headrace.jobs.flag_values import parse_seconds
from headrace.jobs.objects import job_objects, shown
from headrace.jobs.spec import JobKind, JobSpec

COMMAND = Words(
    "command",
    "COMMAND [WORD]...",
    "What the processes run. One word is a line for --shell; more are a program and its words, as they are.",
    several=True,
    optional=True,
)
_FORMS = ("yaml", "json")


def submit(kind: JobKind, values: Values) -> None:
    """Checks the request and creates the job. Raises `HeadraceError`, `typer.Exit`."""
    _check_words(values)
    backend = _backend(values)
    namespace = values["namespace"] or (backend.default_namespace if backend else "default")
    spec = request_of(kind, values, RequestContext(namespace, read_text))
    output.refuse(faults(spec, needs_image=backend.needs_images if backend else True))
    output.notice([*ignored(values), *(backend.notices(spec) if backend else ())])
    problems = list(backend.problems(spec)) if backend else []
    if values["dry_run"]:
        _show(backend, spec, values)
        _warn(problems)
        return
    if backend is None:
        raise ValueError("without a backend nothing but --dry-run is possible")
    if values["skip_checks"]:
        _warn(problems)
    else:
        output.refuse(problems)
    _create(backend, spec)
    if values["wait"]:
        timeout_s = parse_seconds(values["timeout"], "--timeout") if values["timeout"] else None
        waiting.wait_for_end(backend, namespace, [spec.name], kind, timeout_s)


def command_of(kind: JobKind) -> Callable[..., None]:
    """The function for typer."""

    def run(values: Values) -> None:
        submit(kind, values)

    titles = {
        JobKind.MPI: "Submit a job of MPI: the launcher runs the command, whose mpirun starts ranks on the workers.",
        JobKind.PYTORCH: "Submit a job of PyTorch: master and workers run the command, with torchrun's variables.",
        JobKind.TF: "Submit a job of TensorFlow: every process runs the command, with its TF_CONFIG.",
    }
    run.__doc__ = titles[kind]
    return command(run, OF_KIND[kind], (COMMAND,))


def read_text(path: str) -> str:
    """A local file. Raises `ConfigError`, `MissingFileError`."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MissingFileError.of(f"--config-file {path} is not there") from None
    except UnicodeDecodeError:
        raise ConfigError.of(
            f"--config-file {path} is not text in UTF-8", hint="put other files into a volume"
        ) from None
    except OSError as error:
        raise ConfigError.of(f"--config-file {path} cannot be read: {error.strerror}") from None


def _check_words(values: Values) -> None:
    if values["output"] not in _FORMS:
        raise ConfigError.of(f"-o {values['output'][:32]} is not a format", hint="known are yaml and json")
    if not values["name"] and any(word.partition("=")[0] == "--name" for word in values["command"]):
        raise ConfigError.of(
            "--name stands behind the command, so it is a word of the command",
            hint="write the flags first, and the command last",
        )


def _backend(values: Values) -> JobBackend | None:
    """None: what was asked for can be shown without one, and there is none."""
    try:
        return backend_choice.backend_of(values)
    except ConfigError:
        if values["dry_run"] and not values["backend"] and not values["config"]:
            return None
        raise


def _show(backend: JobBackend | None, spec: JobSpec, values: Values) -> None:
    things = list(backend.objects(spec)) if backend else job_objects(spec)
    if values["reveal_secrets"]:
        things = [_revealed(thing, spec) for thing in things]
    else:
        things = [shown(thing) for thing in things]
    if values["output"] == "json":
        output.document({"apiVersion": "v1", "kind": "List", "items": things}, "json")
    else:
        output.document(things, "yaml-stream")


def _revealed(thing: dict[str, object], spec: JobSpec) -> dict[str, object]:
    """A backend hands out no values; the request has them."""
    secrets = [each for each in job_objects(spec) if each["kind"] == "Secret"]
    return secrets[0] if thing.get("kind") == "Secret" and secrets else thing


def _warn(problems: list[str]) -> None:
    for problem in problems:
        printer.warn(" ".join(problem.split()))


def _create(backend: JobBackend, spec: JobSpec) -> None:
    for name in backend.submit(spec):
        printer.data(f"{name} created")
    printer.flush()
    output.info(f"The Job {spec.name} has been submitted successfully")
    output.info(
        f"You can run `arena get {spec.name} --type {spec.kind.value} -n {spec.namespace}` to check the job status"
    )
