"""Jobs in the database, and what of them is secret in files: written down before anything is done for them."""

from __future__ import annotations

import json
import logging
import secrets
from pathlib import Path

from pydantic import SecretStr, ValidationError

from headrace.errors import CorruptDataError
from headrace.jobs.job_choice import only_job
from headrace.jobs.spec import JobKind, JobSpec
from headrace.local.jobs.job_layout import JobLayout
from headrace.local.jobs.job_records import JobRecord
from headrace.local.jobs.resource_limits import remove_groups_of_job
from headrace.local.layout import BackendLayout
from headrace.local.nodes.managed_folders import remove_tree
from headrace.local.processes.private_files import write_private
from headrace.local.store.database import Database

_log = logging.getLogger("headrace.local")

_PREFIX = "training:"


class JobStore:
    """All jobs of one backend, read once: nobody else writes them. Writing blocks for as long as the disk takes."""

    def __init__(self, database: Database, layout: BackendLayout) -> None:
        self._database = database
        self._layout = layout
        self._records: dict[str, JobRecord] = {}
        self._unread: set[str] = set()
        for uid, text in database.notes(_PREFIX).items():
            try:
                record = JobRecord.model_validate_json(text)
            except ValidationError:
                _log.error("job/%s: is kept, and cannot be read by this release: it is left alone", uid)
                self._unread.add(uid)
            else:
                self._records[record.uid] = record

    @property
    def uids(self) -> frozenset[str]:
        """The identities of all jobs that are kept, also of those that another release wrote and nobody can read."""
        return frozenset(self._records) | self._unread

    def all(self) -> list[JobRecord]:
        """Every job, the oldest first."""
        return sorted(self._records.values(), key=lambda each: (each.created, each.uid))

    def find(self, uid: str) -> JobRecord | None:
        """One job; `None` when it is gone."""
        return self._records.get(uid)

    def named(self, namespace: str, name: str, kind: JobKind | None = None) -> JobRecord:
        """The job of that name. Raises `MissingJobError`, or `AmbiguousJobError` when several kinds have it."""
        found = self.select(namespace, name, kind)
        return only_job(found, lambda job: job.spec.kind, namespace, name, kind)

    def select(self, namespace: str | None, name: str = "", kind: JobKind | None = None) -> list[JobRecord]:
        """The jobs of a namespace (None: of all), of a name, of a kind; the oldest first."""
        return [
            each
            for each in self.all()
            if (namespace is None or each.spec.namespace == namespace)
            and (not name or each.spec.name == name)
            and (kind is None or each.spec.kind is kind)
        ]

    def write(self, record: JobRecord) -> None:
        """Writes it down."""
        self._database.note(f"{_PREFIX}{record.uid}", record.model_dump_json())
        self._records[record.uid] = record

    def strike(self, uid: str) -> None:
        """Takes away what there is of a job, its record last."""
        folder = JobLayout(self._layout, uid).folder
        remove_groups_of_job(folder)
        remove_tree(folder)
        self._database.strike(f"{_PREFIX}{uid}")
        self._records.pop(uid, None)

    def keep_spec(self, uid: str, spec: JobSpec) -> None:
        """Writes what was asked for, with its secrets, and a token for the job. Raises `NoSpaceError`."""
        layout = JobLayout(self._layout, uid)
        write_private(layout.spec, spec_to_json(spec))
        write_private(layout.token, secrets.token_hex(32).encode())

    def spec(self, uid: str) -> JobSpec:
        """The request, with its secrets. Raises `CorruptDataError` when the job has ended."""
        return spec_from_json(JobLayout(self._layout, uid).spec.read_bytes())

    def drop_secrets(self, uid: str) -> None:
        """Takes away everything of an ended job but its record and its logs."""
        layout = JobLayout(self._layout, uid)
        if layout.folder.is_dir():
            remove_groups_of_job(layout.folder)
            remove_tree(layout.folder, keep=[_parent_of_logs(layout)])

    def strays(self) -> list[Path]:
        """Folders of jobs that nobody has written down: a supervisor died between the two."""
        folder = JobLayout(self._layout, "").folder
        return [each for each in folder.iterdir() if each.name not in self.uids] if folder.is_dir() else []


def spec_to_json(spec: JobSpec) -> bytes:
    """All of a request, its secrets, too: for a private file, or for the supervisor's own socket."""
    content = spec.model_dump(mode="json")
    for file, shown in zip(spec.config_files, content["config_files"], strict=True):
        shown["content"] = file.content.get_secret_value()
    return json.dumps(content).encode()


def spec_from_json(data: bytes) -> JobSpec:
    """The request again. Raises `CorruptDataError`, which tells nothing of what stands there."""
    try:
        return JobSpec.model_validate_json(data)
    except ValidationError:
        raise CorruptDataError.of("a kept request for a job cannot be read") from None


def content_of(content: SecretStr) -> bytes:
    """The bytes of a configuration file: text, in which what was no text stands as it was."""
    return content.get_secret_value().encode(errors="surrogateescape")


def _parent_of_logs(layout: JobLayout) -> Path:
    return layout.log("").parent
