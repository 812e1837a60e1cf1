"""A row of `objects.db` that cannot be read: it is one damaged object, told of by its name, and hides no other."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from headrace.api import printing
from headrace.errors import CorruptDataError
from headrace.local.nodes.virtual_nodes import VirtualNodes
from headrace.local.operations.job_driver import RunNotes
from headrace.local.processes.consumers import read_consumers
from headrace.local.processes.role_processes import RoleOrder, RoleRecord, read_roles
from headrace.local.reconcile.back_off import StartBackOff
from headrace.local.server.status_lines import trouble_lines
from headrace.local.store import admission
from headrace.local.store.database import Database
from headrace.local.store.object_store import Selection, Store
from headrace.local.store.records import Reference

KIND = "AlluxioRuntime"
SELECTION = Selection((KIND,))
FINE, HURT = Reference(KIND, "default", "fine"), Reference(KIND, "default", "hurt")
CONTENT = {"spec": {"replicas": 2}}


@pytest.fixture
def store(tmp_path: Path, database: Database) -> Iterator[Store]:
    store = Store(database)
    with store.changing() as transaction:
        for reference in (FINE, HURT):
            transaction.create(reference, CONTENT, ("runtime-finalizer",))
    yield store


def damage(database: Database, column: str, value: bytes) -> None:
    """As a disk does it that loses bits."""
    with sqlite3.connect(database.path) as connection:
        connection.execute(
            f"UPDATE objects SET {column} = CAST(? AS TEXT) WHERE name = ?",
            (value, HURT.name),
        )


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("content", b'{"spec": {"replicas": 2', "content in objects.db cannot be read: Expecting"),
        ("content", b'{"spec": "SECRET\xff"}', "content in objects.db cannot be read: it is no UTF-8"),
        ("content", b"[]", "content in objects.db cannot be read: it is of another form"),
        ("content", b"[" * 100_000, "content in objects.db cannot be read"),
        ("finalizers", b"7", "finalizers in objects.db cannot be read"),
    ],
)
def test_one_damaged_row_is_told_by_name_and_the_others_are_listed(
    store: Store, database: Database, column: str, value: bytes, told: str
) -> None:
    damage(database, column, value)
    fine, hurt = store.select(SELECTION)[0]
    assert (fine.reference, fine.content, fine.damage) == (FINE, CONTENT, "")
    assert hurt.reference == HURT and told in hurt.damage and "SECRET" not in hurt.damage
    assert told in str(hurt.fault()) and hurt.understood() is None
    (line,) = [line for line in trouble_lines([fine, hurt]) if line.condition == "Damaged"]
    assert (line.object.name, line.message) == ("hurt", hurt.damage)
    assert "hurt" in printing.get_text([each.document() for each in (fine, hurt)], hurt.created)


@pytest.mark.parametrize(
    ("column", "value"), [("status", b"{"), ("created", b"yesterday"), ("deleted", b"soon")]
)
def test_what_the_store_can_do_without_is_no_damage_of_the_object(
    store: Store, database: Database, column: str, value: bytes
) -> None:
    damage(database, column, value)
    hurt = store.need(HURT)
    assert (hurt.content, hurt.damage, hurt.status) == (CONTENT, "", None)
    assert (hurt.deleted is not None) is (column == "deleted")


@pytest.mark.parametrize("column", ["content", "finalizers"])
def test_a_damaged_object_is_applied_anew_or_deleted_and_not_changed_by_halves(
    store: Store, database: Database, column: str
) -> None:
    damage(database, column, b"{")
    with store.changing() as transaction:
        with pytest.raises(CorruptDataError, match="cannot be read") as refused:
            admission.scale(transaction, HURT, 5)
        assert refused.value.hint == "apply the whole object again, or delete it"
        with pytest.raises(CorruptDataError, match="cannot be read"):
            admission.patch(transaction, HURT, {"spec": {"replicas": 5}})
        whole = admission.Wish(HURT, CONTENT, ("runtime-finalizer",), None)
        admission.apply(transaction, whole)
    assert store.need(HURT).damage == "" and store.need(HURT).content["spec"] == CONTENT["spec"]
    damage(database, column, b"{")
    with store.changing() as transaction:
        transaction.set_finalizers(transaction.need(HURT), ())
        transaction.delete(HURT)
    assert store.get(HURT) is None


def test_a_damaged_role_or_use_is_left_out_and_the_others_go_on(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    order = RoleOrder("default.fine.master", "default", "fine", "master", "node-1", ("true",), "/log")
    content = json.dumps(asdict(RoleRecord(order)))
    use = {"id": "1", "title": "a program", "node": "node-1", "datasets": [["default", "fine"]]}
    with database.transaction() as connection:
        rows = [("fine", content), ("hurt", content[:-9]), ("other", '{"order": {}}')]
        connection.executemany("INSERT INTO roles VALUES (?, ?)", rows)
    database.note("use:1", json.dumps(use))
    database.note("use:2", "{")
    assert [record.order for record in read_roles(database)] == [order]
    assert [consumer.id for consumer in read_consumers(database)] == ["1"]
    database.note("failures:hurt", "[]")
    assert StartBackOff(database).find("hurt") is None
    database.note("job:7", '{"kind": "load"')
    assert RunNotes(database).read("7") is None
    said = [record.getMessage().partition(": its")[0] for record in caplog.records]
    assert said == [
        f"{name}: left out"
        for name in ("role/hurt", "role/other", "use/use:2", "failure/hurt", "operation/7")
    ]


def test_a_damaged_node_is_named(database: Database, tmp_path: Path) -> None:
    with database.transaction() as connection:
        connection.execute("INSERT INTO nodes VALUES ('node-7', '{')")
    with pytest.raises(CorruptDataError, match="row of node node-7"):
        VirtualNodes(database, tmp_path).all()


def test_a_damaged_change_is_told_to_who_watches(store: Store, database: Database) -> None:
    since = store.select(SELECTION)[1]
    with store.changing() as transaction:
        transaction.set_finalizers(transaction.need(HURT), ())
        transaction.delete(HURT)
    with sqlite3.connect(database.path) as connection:
        connection.execute("UPDATE changes SET last = '{' WHERE last IS NOT NULL")
    changes, _ = store.changes(since, SELECTION)
    assert [(change.type, change.document["metadata"]["name"]) for change in changes][-1] == (
        "DELETED",
        "hurt",
    )
    assert json.dumps(changes[-1].document)
