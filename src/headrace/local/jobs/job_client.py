"""Jobs of one machine, as commands ask for them: `headrace.jobs.backend` over the supervisor's socket."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn
from urllib.parse import urlencode

from headrace.errors import (
    BusyError,
    HeadraceError,
    MissingJobError,
    TakenJobError,
)
from headrace.jobs.backend import LogWish
from headrace.jobs.job_choice import only_job
from headrace.jobs.naming import full_name
from headrace.jobs.objects import job_objects, shown
from headrace.jobs.spec import JobKind, JobSpec
from headrace.jobs.views import ClaimView, JobView, NodeRoom
from headrace.local.jobs import job_messages
from headrace.local.jobs.job_admission import notices
from headrace.local.jobs.job_store import spec_to_json
from headrace.local.layout import BackendLayout
from headrace.local.nodes.nsenter import enter_process
from headrace.local.protocol.client import LocalClient
from headrace.process.stat import started_ticks
from headrace.settings.environment import Environment

_POLL_S = 0.1
_GONE_S = 120.0
_CANNOT_BEGIN = 126
_NOT_THERE = 127


class LocalJobBackend:
    """Jobs on the virtual nodes. A `headrace.jobs.backend.JobBackend`."""

    def __init__(self, layout: BackendLayout, environment: Environment | None = None) -> None:
        self._client = LocalClient(layout)
        self._environment = environment or Environment.current()

    @property
    def default_namespace(self) -> str:
        """`default`."""
        return "default"

    @property
    def needs_images(self) -> bool:
        """Programs run with what this machine has."""
        return False

    def notices(self, spec: JobSpec) -> Sequence[str]:
        """The parts of the request that have no effect on one machine."""
        return tuple(notices(spec))

    def problems(self, spec: JobSpec) -> Sequence[str]:
        """The obstacles to submitting; changes nothing."""
        answer = self._client.ask(
            "POST", "/v1/training/problems", job_messages.Sentences, self._submission(spec)
        )
        return answer.sentences

    def objects(self, spec: JobSpec) -> Sequence[dict[str, Any]]:
        """The job's objects on Kubernetes, without secrets' values: on one machine it is no object."""
        return [shown(thing) for thing in job_objects(spec)]

    def submit(self, spec: JobSpec) -> Sequence[str]:
        """Creates the job. Raises `TakenJobError` when there is one of that name, `ConfigError` with all problems."""
        try:
            self._client.ask("POST", "/v1/training", job_messages.JobViews, self._submission(spec))
        except BusyError as error:
            raise TakenJobError.of(error.message, hint=error.hint) from None
        return (full_name(spec.kind, spec.name),)

    def get(self, namespace: str, name: str, kind: JobKind | None, *, events: bool = False) -> JobView:
        """One job. Raises `MissingJobError` or `AmbiguousJobError`."""
        found = self._jobs(namespace=namespace, name=name, kind=kind or "", events="1" if events else "")
        return only_job(found, lambda job: job.kind, namespace, name, kind)

    def jobs(self, namespace: str | None, kind: JobKind | None = None) -> Sequence[JobView]:
        """All jobs of a namespace (None: of all), the newest first."""
        return self._jobs(namespace=namespace or "", kind=kind or "")

    def logs(self, job: JobView, wish: LogWish) -> Iterator[bytes]:
        """Lines with their ends, also of instances that are gone."""
        query = {
            "uid": job.uid,
            "instance": wish.instance,
            "tail": "" if wish.tail is None else str(wish.tail),
            "since": wish.since.isoformat() if wish.since else "",
            "timestamps": "1" if wish.timestamps else "",
            "follow": "1" if wish.follow else "",
            "all_instances": "1" if wish.all_instances else "",
        }
        return self._client.lines(f"/v1/training/logs?{urlencode(query)}")

    def delete(self, job: JobView) -> Sequence[str]:
        """Ends and deletes it; returns when it is gone. Raises `BusyError` when a program does not end."""
        name = job_messages.JobName(uid=job.uid)
        self._client.ask("POST", "/v1/training/delete", job_messages.JobName, name)
        deadline = time.monotonic() + _GONE_S
        while self._jobs(uid=job.uid):
            if time.monotonic() >= deadline:
                raise BusyError.of(
                    f"job {job.namespace}/{job.name} does not end",
                    hint="`headrace status --local` shows its processes",
                )
            time.sleep(_POLL_S)
        return (full_name(job.kind, job.name),)

    def tend(self, job: JobView) -> None:
        """The supervisor does all that."""

    def release(self, job: JobView) -> Sequence[str]:
        """Starts a job that waits for its data; ends what an ended one has left running."""
        name = job_messages.JobName(uid=job.uid)
        return self._client.ask("POST", "/v1/training/release", job_messages.Sentences, name).sentences

    def attach(self, job: JobView, instance: str, container: str, command: Sequence[str]) -> int:  # noqa: ARG002
        """Runs a program in an instance with this terminal; its exit code. There are no containers to choose from."""
        wish = job_messages.EntryWish(uid=job.uid, instance=instance)
        entry = self._client.ask("POST", "/v1/training/entry", job_messages.Entry, wish)
        pid = os.fork()
        if pid == 0:
            _become(entry, command)
        return _wait(pid)

    def claims(self, namespace: str | None) -> Sequence[ClaimView]:
        """Volumes that a job may name."""
        query = urlencode({"namespace": namespace or ""})
        return self._client.ask("GET", f"/v1/training/claims?{query}", job_messages.ClaimViews).claims

    def nodes(self) -> Sequence[NodeRoom]:
        """The virtual nodes."""
        return self._client.ask("GET", "/v1/training/nodes", job_messages.NodeRooms).nodes

    def _jobs(self, **query: str) -> Sequence[JobView]:
        asked = urlencode({name: value for name, value in query.items() if value})
        return self._client.ask("GET", f"/v1/training?{asked}", job_messages.JobViews).jobs

    def _submission(self, spec: JobSpec) -> job_messages.Submission:
        path = self._environment.get("PATH") or ""
        return job_messages.Submission(spec=json.loads(spec_to_json(spec)), search_path=path)


def _become(entry: job_messages.Entry, command: Sequence[str]) -> NoReturn:
    """In the child: goes to the instance, and is the program from here on."""
    code = _CANNOT_BEGIN
    try:
        if started_ticks(entry.pid) != entry.started_ticks:
            raise MissingJobError.of("the instance has ended meanwhile")
        if entry.is_apart:
            enter_process(entry.pid)
        os.chdir(entry.folder)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(command[0], list(command), entry.environment)  # noqa: S606
    except FileNotFoundError as error:
        code = _NOT_THERE
        _complain(error)
    except OSError as error:
        _complain(error)
    finally:
        os._exit(code)


def _complain(error: OSError) -> None:
    what = error.message if isinstance(error, HeadraceError) else f"{error.filename or ''}: {error.strerror}"
    os.write(2, f"headrace: {what}\n".encode())


def _wait(pid: int) -> int:
    """The exit code of a child; signals from the terminal are its affair."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        _, status = os.waitpid(pid, 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code
