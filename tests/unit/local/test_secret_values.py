from __future__ import annotations

from headrace.local.store.database import Database
from headrace.local.store.records import Reference
from headrace.local.store.secret_values import digest_key, digests_of, values_of


def secret(store, data, name="keys"):
    with store.changing() as transaction:
        reference = Reference("Secret", "default", name)
        if transaction.get(reference) is None:
            return transaction.create(reference, {"data": data})
        return transaction.replace(reference, {"data": data})


def test_the_digest_of_a_key_changes_with_its_value_and_with_nothing_else(store, database) -> None:
    first = secret(store, {"id": "dmFsdWU=", "key": "eA=="})
    assert values_of(first) == {"id": b"value", "key": b"x"}
    key = digest_key(database)
    digests = digests_of(first, key)
    assert digests_of(secret(store, {"key": "eA==", "id": "dmFsdWU="}), key) == digests
    grown = digests_of(secret(store, {"id": "dmFsdWU=", "key": "eA==", "more": "eA=="}), key)
    assert {name: grown[name] for name in digests} == digests
    assert len(set(grown.values())) == 3
    changed = digests_of(secret(store, {"id": "dmFsdWU=", "key": "eQ=="}), key)
    assert (changed["id"], changed["key"] == digests["key"]) == (digests["id"], False)


def test_digests_tell_nothing_of_equal_values(store, database, tmp_path) -> None:
    first, other = secret(store, {"key": "eA=="}), secret(store, {"key": "eA=="}, "other")
    elsewhere = Database(tmp_path / "other.db")
    keys = (digest_key(database), digest_key(elsewhere))
    elsewhere.close()
    assert len({digests_of(each, key)["key"] for each in (first, other) for key in keys}) == 4
