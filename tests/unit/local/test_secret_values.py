from __future__ import annotations

from headrace.local.database import Database
from headrace.local.records import Reference
from headrace.local.secret_values import digest_key, digest_of, keys_of, values_of


def secret(store, data):
    with store.changing() as writer:
        reference = Reference("Secret", "default", "keys")
        if writer.get(reference) is None:
            return writer.create(reference, {"data": data})
        return writer.replace(reference, {"data": data})


def test_the_digest_changes_with_a_value_and_with_nothing_else(store, database, tmp_path) -> None:
    first = secret(store, {"id": "dmFsdWU=", "key": "eA=="})
    assert (keys_of(first), values_of(first)) == ({"id", "key"}, {"id": b"value", "key": b"x"})
    digest = digest_of(first, digest_key(database))
    assert digest_of(secret(store, {"key": "eA==", "id": "dmFsdWU="}), digest_key(database)) == digest
    others = [{"id": "dmFsdWU=", "key": "eQ=="}, {"id": "dmFsdWU="}, {"id": "eA==", "key": "dmFsdWU="}, {}]
    assert len({digest, *(digest_of(secret(store, other), digest_key(database)) for other in others)}) == 5
    elsewhere = Database(tmp_path / "other.db")
    assert digest_of(first, digest_key(elsewhere)) != digest
    elsewhere.close()
