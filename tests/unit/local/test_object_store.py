"""Objects in the store: versions, generations, finalizers, and what those see who watch."""

from __future__ import annotations

import sqlite3
import stat

import pytest

from headrace.errors import BusyError, ConfigError, CorruptDataError, MissingFileError, UnsupportedError
from headrace.local.store import transaction
from headrace.local.store.database import Database
from headrace.local.store.object_store import Selection, Store
from headrace.local.store.records import Reference

IMAGENET = Reference("Dataset", "default", "imagenet")
CONTENT = {"spec": {"mounts": [{"mountPoint": "s3://bucket", "name": "images"}]}}
ALL = Selection(("Dataset", "Secret"))


def create(store: Store, reference: Reference = IMAGENET, content=CONTENT, finalizers=()):
    with store.changing() as transaction:
        return transaction.create(reference, content, finalizers)


def test_an_object_is_there_as_it_was_declared(store: Store, clock) -> None:
    record = create(store)
    assert store.get(IMAGENET) == record
    document = record.document()
    assert list(document) == ["apiVersion", "kind", "metadata", "spec"]
    assert document["metadata"]["creationTimestamp"] == "2026-01-31T09:30:00Z"
    assert (document["metadata"]["generation"], document["metadata"]["resourceVersion"]) == (1, "1")
    assert record.thing().name == "imagenet"


def test_an_object_is_made_once(store: Store) -> None:
    create(store)
    with pytest.raises(
        ConfigError, match=r'datasets.data.fluid.io "imagenet" already exists in namespace default'
    ):
        create(store)


def test_the_generation_counts_changes_of_what_is_wanted(store: Store) -> None:
    create(store)
    with store.changing() as transaction:
        labelled = transaction.replace(IMAGENET, {"metadata": {"labels": {"a": "b"}}, **CONTENT})
        changed = transaction.replace(IMAGENET, {"spec": {}})
        same = transaction.replace(IMAGENET, {"spec": {}})
    status = store.set_status(changed, {"phase": "Bound"})
    assert [each.generation for each in (labelled, changed, same, status)] == [1, 2, 2, 2]
    assert [each.resource_version for each in (labelled, changed, same, status)] == [2, 3, 3, 4]


def test_who_read_an_older_version_changes_nothing(store: Store) -> None:
    record = create(store)
    store.set_status(record, {"phase": "Bound"})
    with pytest.raises(BusyError, match="has changed since it was read"), store.changing() as transaction:
        transaction.replace(IMAGENET, {"spec": {}}, expected=record.resource_version)
    assert store.need(IMAGENET).content == CONTENT


def test_a_status_is_not_given_to_another_object_of_the_name(store: Store) -> None:
    first = create(store)
    with store.changing() as transaction:
        transaction.delete(IMAGENET)
    create(store)
    with pytest.raises(MissingFileError):
        store.set_status(first, {"phase": "Bound"})
    assert store.need(IMAGENET).status is None


def test_a_deletion_waits_for_the_finalizers(store: Store) -> None:
    record = create(store, finalizers=("planner", "backup"))
    with store.changing() as transaction:
        leaving = transaction.delete(IMAGENET)
        assert transaction.delete(IMAGENET) == leaving
    assert leaving is not None and leaving.deleted is not None
    assert store.set_finalizers(record, ["backup"]) is not None
    assert store.set_finalizers(record, []) is None
    assert store.get(IMAGENET) is None


def test_a_transaction_that_fails_changes_nothing(store: Store) -> None:
    told = []
    store.on_change(told.append)
    with pytest.raises(RuntimeError), store.changing() as transaction:
        transaction.create(IMAGENET, CONTENT)
        raise RuntimeError
    assert store.get(IMAGENET) is None
    assert store.select(ALL) == ([], 0)
    assert told == []
    create(store)
    assert told == [(IMAGENET,)]


def test_same_names_live_side_by_side_in_namespaces(store: Store) -> None:
    for namespace in ("b", "a"):
        create(store, Reference("Dataset", namespace, "same"))
    names = [record.reference.namespace for record in store.select(ALL)[0]]
    assert names == ["a", "b"]
    assert len(store.select(Selection(("Dataset",), "b"))[0]) == 1


def test_a_watcher_sees_the_last_state_of_each_object(store: Store) -> None:
    record = create(store)
    _, since = store.select(ALL)
    store.set_status(record, {"phase": "Pending"})
    store.set_status(record, {"phase": "Bound"})
    create(store, Reference("Secret", "default", "keys"), {"data": {"key": "dmFsdWU="}})
    with store.changing() as transaction:
        transaction.delete(Reference("Secret", "default", "keys"))
    changes, now = store.changes(since, ALL)
    assert [(each.type, each.document["metadata"]["name"]) for each in changes] == [
        ("MODIFIED", "imagenet"),
        ("DELETED", "keys"),
    ]
    assert changes[0].document["status"] == {"phase": "Bound"}
    assert store.changes(now, ALL) == ([], now)


def test_a_deleted_secret_leaves_no_value_behind(store: Store, database: Database, tmp_path) -> None:
    keys = Reference("Secret", "default", "keys")
    create(store, keys, {"data": {"key": "dG9wc2VjcmV0"}})
    with store.changing() as transaction:
        transaction.delete(keys)
    assert "dG9wc2VjcmV0" not in str(store.changes(0, ALL))
    database.close()
    assert b"dG9wc2VjcmV0" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_a_watcher_who_was_away_for_too_long_lists_anew(store: Store, monkeypatch) -> None:
    monkeypatch.setattr(transaction, "KEPT_CHANGES", 3)
    record = create(store)
    for number in range(5):
        record = store.set_status(record, {"fileNum": str(number)})
    with pytest.raises(BusyError, match="not known any more"):
        store.changes(1, ALL)
    assert len(store.changes(4, ALL)[0]) == 1
    with pytest.raises(BusyError):
        store.changes(99, ALL)


def test_the_file_is_open_to_its_owner_alone(database: Database, store: Store, tmp_path) -> None:
    create(store)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {0o600}


def test_the_file_says_what_it_is(tmp_path, database: Database) -> None:
    instance = database.instance
    assert len(instance) == 12
    database.close()
    again = Database(tmp_path / "objects.db")
    assert again.instance == instance
    again.close()
    with sqlite3.connect(tmp_path / "objects.db") as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(UnsupportedError, match="version 2"):
        Database(tmp_path / "objects.db")


def test_what_is_no_database_of_ours_is_left_alone(tmp_path) -> None:
    (tmp_path / "text.db").write_text("something else, quite long, that no database begins with" * 20)
    with pytest.raises(CorruptDataError):
        Database(tmp_path / "text.db")
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(CorruptDataError, match="not a file of Headrace"):
        Database(tmp_path / "other.db")


def test_an_object_that_is_too_large_is_refused(store: Store) -> None:
    with pytest.raises(ConfigError, match="too large"):
        create(store, content={"spec": {"x": "y" * transaction.LARGEST_OBJECT_BYTES}})
