"""What an object owns goes with it, in the same transaction: no kill can come between."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.local.store.object_store import Store
from headrace.local.store.records import Record, Reference


def secret(name: str) -> Reference:
    return Reference("Secret", "default", name)


def make(store: Store, name: str, *owners: Record, finalizers: tuple[str, ...] = ()) -> Record:
    references = [
        {"apiVersion": "v1", "kind": "Secret", "name": each.reference.name, "uid": each.uid}
        for each in owners
    ]
    content: dict[str, Any] = {"metadata": {"ownerReferences": references}} if owners else {}
    with store.changing() as transaction:
        return transaction.create(secret(name), content, finalizers)


def delete(store: Store, name: str) -> None:
    with store.changing() as transaction:
        transaction.delete(secret(name))


def left(store: Store, *names: str) -> list[str]:
    return [name for name in names if store.get(secret(name)) is not None]


def test_what_is_owned_goes_with_its_owner_and_so_on(store: Store) -> None:
    child = make(store, "child", make(store, "owner"))
    make(store, "grandchild", child)
    make(store, "stranger")
    delete(store, "owner")
    assert left(store, "owner", "child", "grandchild", "stranger") == ["stranger"]


def test_finalizers_of_either_are_waited_for(store: Store) -> None:
    owner = make(store, "owner", finalizers=("keep",))
    make(store, "child", owner, finalizers=("mine",))
    delete(store, "owner")
    child = store.need(secret("child"))
    assert child.deleted is None, "its owner is still there"
    store.set_finalizers(store.need(secret("owner")), ())
    child = store.need(secret("child"))
    assert child.deleted is not None
    store.set_finalizers(child, ())
    assert left(store, "owner", "child") == []


def test_the_last_owner_takes_it_along(store: Store) -> None:
    one, two = make(store, "one"), make(store, "two")
    make(store, "child", one, two)
    delete(store, "one")
    (reference,) = store.need(secret("child")).document()["metadata"]["ownerReferences"]
    assert reference["name"] == "two"
    delete(store, "two")
    assert left(store, "child") == []


def test_those_who_own_each_other_go_together(store: Store) -> None:
    one = make(store, "one")
    two = make(store, "two", one)
    with store.changing() as transaction:
        owner = {"apiVersion": "v1", "kind": "Secret", "name": "two", "uid": two.uid}
        transaction.replace(one.reference, {"metadata": {"ownerReferences": [owner]}})
    delete(store, "one")
    assert left(store, "one", "two") == []


def test_orphans_stay_and_say_so(store: Store) -> None:
    owner = make(store, "owner")
    make(store, "child", owner)
    with store.changing() as transaction:
        transaction.orphan(owner)
        transaction.delete(owner.reference)
    assert "ownerReferences" not in store.need(secret("child")).document()["metadata"]


def test_what_has_gone_with_its_owner_is_known_for_a_moment(store: Store, clock) -> None:
    """So that who deletes both, one after the other, is told no error."""

    def went(name: str) -> bool:
        with store.changing() as transaction:
            return transaction.went_along(secret(name))

    owner = make(store, "owner")
    make(store, "child", owner, finalizers=("mine",))
    make(store, "alone", finalizers=("mine",))
    delete(store, "owner")
    delete(store, "alone")
    assert not went("child"), "it is still there"
    for name in ("child", "alone"):
        store.set_finalizers(store.need(secret(name)), ())
    assert (went("child"), went("alone"), went("owner"), went("nobody")) == (True, False, False, False)
    clock.move(3600)
    assert not went("child")
    make(store, "child")
    assert not went("child")


@pytest.mark.parametrize("uid", ["", "nobody"])
def test_a_reference_to_what_never_was_here_does_nothing(store: Store, uid: str) -> None:
    owner = make(store, "owner")
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": uid}
    with store.changing() as transaction:
        transaction.create(secret("child"), {"metadata": {"ownerReferences": [reference]}, "note": owner.uid})
    delete(store, "owner")
    assert left(store, "child") == ["child"]
