"""Jobs as they are written down: found by name, whole after a restart, without secrets when they have ended."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr
from training_contexts import job_spec, record_of

from headrace.errors import AmbiguousJobError, MissingJobError
from headrace.jobs.environments import without_secrets
from headrace.jobs.spec import ConfigFile, JobKind
from headrace.local.jobs.job_layout import JobLayout
from headrace.local.jobs.job_records import JobRecord
from headrace.local.jobs.job_store import JobStore
from headrace.local.layout import BackendLayout
from headrace.local.store.database import Database


def notes_at(folder: Path) -> JobStore:
    return JobStore(Database(folder / "objects.db"), BackendLayout(folder))


def named(uid: str, **fields: object) -> JobRecord:
    return record_of(job_spec(**fields)).changed(uid=uid)


def test_jobs_are_found_by_their_names_and_kinds(tmp_path: Path) -> None:
    job_store = notes_at(tmp_path)
    first, second = named("a"), named("b", kind=JobKind.TF)
    for record in (first, second):
        job_store.write(record)
    assert job_store.named("default", "job", JobKind.TF) == second
    with pytest.raises(AmbiguousJobError, match="mpijob, tfjob"):
        job_store.named("default", "job")
    with pytest.raises(MissingJobError, match="Not found training job job in namespace other"):
        job_store.named("other", "job")
    assert [each.uid for each in job_store.select(None)] == ["a", "b"]


def test_the_next_supervisor_reads_what_was_written_last(tmp_path: Path) -> None:
    before = notes_at(tmp_path)
    record = named("a").changed(reason="waits", started=named("a").created + timedelta(seconds=1))
    before.write(named("a"))
    before.write(record)
    before.write(named("b"))
    before.strike("b")
    assert notes_at(tmp_path).all() == [record]


def test_secrets_are_in_a_private_file_alone_and_go_with_the_end(tmp_path: Path) -> None:
    job_store = notes_at(tmp_path)
    file = ConfigFile(path="/a", content=SecretStr("VALUE"))
    spec = job_spec(environment={"API_TOKEN": "VALUE", "PLAIN": "b"}, config_files=(file,))
    job_store.keep_spec("a", spec)
    job_store.write(record_of(without_secrets(spec)).changed(uid="a"))
    assert job_store.spec("a") == spec
    layout = JobLayout(BackendLayout(tmp_path), "a")
    assert layout.spec.stat().st_mode & 0o777 == 0o600
    layout.log("x").parent.mkdir()
    layout.log("x").write_text("line")
    job_store.drop_secrets("a")
    assert [path.name for path in layout.folder.iterdir()] == ["logs"]
    assert b"VALUE" not in (tmp_path / "objects.db").read_bytes()
    assert b"VALUE" not in (tmp_path / "objects.db-wal").read_bytes()


def test_what_nobody_wrote_down_is_known_as_stray(tmp_path: Path) -> None:
    job_store = notes_at(tmp_path)
    for uid in ("a", "b"):
        job_store.keep_spec(uid, job_spec())
    job_store.write(named("a"))
    assert [path.name for path in job_store.strays()] == ["b"]
