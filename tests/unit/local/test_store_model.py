"""The store beside a dictionary: whatever is done in any order, both say the same, and so does who only watched."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.errors import ConfigError, MissingFileError
from headrace.local.store.database import Database
from headrace.local.store.object_store import Selection, Store
from headrace.local.store.records import Reference

KINDS = ("Dataset", "Secret")
ALL = Selection(KINDS)
references = st.builds(
    Reference, st.sampled_from(KINDS), st.sampled_from(("a", "b")), st.sampled_from(("one", "two"))
)
contents = st.fixed_dictionaries({"spec": st.dictionaries(st.sampled_from("xy"), st.integers(0, 2))})
finalizers = st.lists(st.sampled_from(("planner", "backup")), unique=True)


class StoreBesideModel(RuleBasedStateMachine):
    """`model` holds content, finalizers and whether a deletion was asked for; `seen` what a watcher knows."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.database = Database(Path(self.folder.name) / "objects.db")
        self.store = Store(self.database)
        self.model: dict[Reference, tuple[dict, tuple[str, ...], bool]] = {}
        self.seen: dict[tuple[str, str, str], str] = {}
        self.version = 0

    @rule(reference=references, content=contents, asked=finalizers)
    def create(self, reference, content, asked) -> None:
        try:
            with self.store.changing() as transaction:
                transaction.create(reference, content, asked)
        except ConfigError:
            assert reference in self.model
        else:
            assert reference not in self.model
            self.model[reference] = (content, tuple(asked), False)

    @rule(reference=references, content=contents)
    def replace(self, reference, content) -> None:
        try:
            with self.store.changing() as transaction:
                transaction.replace(reference, content)
        except MissingFileError:
            assert reference not in self.model
        else:
            self.model[reference] = (content, *self.model[reference][1:])

    @rule(reference=references, phase=st.sampled_from(("Bound", "Pending")))
    def set_status(self, reference, phase) -> None:
        record = self.store.get(reference)
        if record is not None:
            assert self.store.set_status(record, {"phase": phase}).status == {"phase": phase}

    @rule(reference=references, asked=finalizers)
    def set_finalizers(self, reference, asked) -> None:
        record = self.store.get(reference)
        if record is None:
            return
        content, before, is_leaving = self.model[reference]
        if self.store.set_finalizers(record, asked) is None:
            assert is_leaving and not asked
            del self.model[reference]
        else:
            self.model[reference] = (content, tuple(asked), is_leaving)
            assert asked or not is_leaving or not before

    @rule(reference=references)
    def delete(self, reference) -> None:
        try:
            with self.store.changing() as transaction:
                left = transaction.delete(reference)
        except MissingFileError:
            assert reference not in self.model
            return
        content, asked, _ = self.model.pop(reference)
        assert (left is not None) == bool(asked)
        if asked:
            self.model[reference] = (content, asked, True)

    @rule()
    def die_and_open_again(self) -> None:
        path = Path(self.folder.name) / "objects.db"
        self.database.close()
        self.database = Database(path)
        self.store = Store(self.database)

    @rule()
    def watch(self) -> None:
        changes, self.version = self.store.changes(self.version, ALL)
        for change in changes:
            metadata = change.document["metadata"]
            key = (change.document["kind"], metadata["namespace"], metadata["name"])
            if change.type == "DELETED":
                self.seen.pop(key, None)
            else:
                self.seen[key] = metadata["resourceVersion"]
        records, _ = self.store.select(ALL)
        told = {
            (each.reference.kind, each.reference.namespace, each.reference.name): str(each.resource_version)
            for each in records
        }
        assert self.seen == told

    @invariant()
    def both_say_the_same(self) -> None:
        if not hasattr(self, "store"):
            return
        records, _ = self.store.select(ALL)
        found = {
            each.reference: (each.content, each.finalizers, each.deleted is not None) for each in records
        }
        assert found == self.model
        assert len({each.resource_version for each in records}) == len(records)

    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.database.close()
            self.folder.cleanup()


TestStoreBesideModel = StoreBesideModel.TestCase
TestStoreBesideModel.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
