"""Jobs as they are written down: found by name, whole after a restart, without secrets when they have ended."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr
from training_worlds import job_spec, record_of

from headrace.errors import AmbiguousJobError, MissingJobError
from headrace.jobs.environments import without_secrets
from headrace.jobs.spec import ConfigFile, JobKind
from headrace.local.database import Database
from headrace.local.places import Places
from headrace.local.training.notes import JobNotes
from headrace.local.training.places import JobPlaces
from headrace.local.training.records import JobRecord


def notes_at(folder: Path) -> JobNotes:
    return JobNotes(Database(folder / "objects.db"), Places(folder))


def named(uid: str, **fields: object) -> JobRecord:
    return record_of(job_spec(**fields)).changed(uid=uid)


def test_jobs_are_found_by_their_names_and_kinds(tmp_path: Path) -> None:
    notes = notes_at(tmp_path)
    first, second = named("a"), named("b", kind=JobKind.TF)
    for record in (first, second):
        notes.write(record)
    assert notes.named("default", "job", JobKind.TF) == second
    with pytest.raises(AmbiguousJobError, match="mpijob, tfjob"):
        notes.named("default", "job")
    with pytest.raises(MissingJobError):
        notes.named("other", "job")
    assert [each.uid for each in notes.select(None)] == ["a", "b"]


def test_the_next_supervisor_reads_what_was_written_last(tmp_path: Path) -> None:
    before = notes_at(tmp_path)
    record = named("a").changed(reason="waits", started=named("a").created + timedelta(seconds=1))
    before.write(named("a"))
    before.write(record)
    before.write(named("b"))
    before.strike("b")
    assert notes_at(tmp_path).all() == [record]


def test_secrets_are_in_a_private_file_alone_and_go_with_the_end(tmp_path: Path) -> None:
    notes = notes_at(tmp_path)
    file = ConfigFile(path="/a", content=SecretStr("VALUE"))
    spec = job_spec(environment={"API_TOKEN": "VALUE", "PLAIN": "b"}, config_files=(file,))
    notes.keep_spec("a", spec)
    notes.write(record_of(without_secrets(spec)).changed(uid="a"))
    assert notes.spec("a") == spec
    places = JobPlaces(Places(tmp_path), "a")
    assert places.spec.stat().st_mode & 0o777 == 0o600
    places.log("x").parent.mkdir()
    places.log("x").write_text("line")
    notes.drop_secrets("a")
    assert [path.name for path in places.folder.iterdir()] == ["logs"]
    assert b"VALUE" not in (tmp_path / "objects.db").read_bytes()
    assert b"VALUE" not in (tmp_path / "objects.db-wal").read_bytes()


def test_what_nobody_wrote_down_is_known_as_stray(tmp_path: Path) -> None:
    notes = notes_at(tmp_path)
    for uid in ("a", "b"):
        notes.keep_spec(uid, job_spec())
    notes.write(named("a"))
    assert [path.name for path in notes.strays()] == ["b"]
