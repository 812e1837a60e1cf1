"""The mirror: what is kept of objects, and what is said to turn one into another."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.operator.mirror import Mirror, digest_of_value
from headrace.operator.token_digests import Notes


def secret(value: bytes, name: str = "mysecret") -> dict[str, Any]:
    text = base64.b64encode(value).decode()
    return {
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": "default",
            "managedFields": [{"fieldsV1": text}],
            "annotations": {"note": "kept"},
        },
        "data": {"key": text},
        "stringData": {"key": value.decode("latin-1")},
    }


@given(value=st.binary(min_size=8, max_size=40))
def test_no_value_of_a_secret_stays_in_memory_in_any_form(value: bytes) -> None:
    mirror = Mirror(b"key of digests")
    _, kept = mirror.put("Secret", secret(value))
    text = repr(mirror._objects)
    for form in (repr(value)[2:-1], base64.b64encode(value).decode(), value.hex(), value.decode("latin-1")):
        assert form not in text
    assert kept is not None
    assert kept["digests"] == {"key": digest_of_value(value)}


def test_a_note_tells_a_changed_value_and_nothing_without_its_key() -> None:
    one, other = digest_of_value(b"value"), digest_of_value(b"value2")
    assert Notes(b"a").keyed(one) != Notes(b"a").keyed(other)
    assert Notes(b"a").keyed(one) != Notes(b"b").keyed(one)
    assert one[:16] not in Notes(b"a").note(one)


def pod(name: str, labels: dict[str, str] | None = None, claim: str = "") -> dict[str, Any]:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels or {}},
        "spec": {
            "nodeName": "node-1",
            "volumes": [*volumes, {"name": "none", "emptyDir": {}}],
            "containers": [{"env": [{"name": "PASSWORD", "value": "hunter2"}]}],
        },
        "status": {"phase": "Running", "hostIP": "10.0.0.1"},
    }


def test_of_pods_only_ours_and_those_that_use_a_claim_are_kept_and_little_of_them() -> None:
    mirror = Mirror(b"key")
    ours = {"app.kubernetes.io/managed-by": "headrace-operator"}
    for each in (pod("ours", ours), pod("user", claim="imagenet"), pod("stranger")):
        mirror.put("Pod", each)
    assert {each["metadata"]["name"] for each in mirror.all("Pod")} == {"ours", "user"}
    assert "hunter2" not in repr(mirror._objects)
    user = mirror.get("Pod", "default", "user")
    assert user is not None
    assert user["spec"] == {"nodeName": "node-1", "claims": ["imagenet"], "volumes": {"data": "imagenet"}}


def test_a_pod_that_is_ours_no_more_is_forgotten() -> None:
    mirror = Mirror(b"key")
    mirror.put("Pod", pod("user", claim="imagenet"))
    before, now = mirror.put("Pod", pod("user"))
    assert before is not None
    assert now is None
    assert list(mirror.all("Pod")) == []


@given(
    kept=st.sets(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from("xyz"))),
    seen=st.sets(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from("xyz"))),
)
def test_what_was_not_listed_again_has_gone(kept: set[tuple[str, str]], seen: set[tuple[str, str]]) -> None:
    mirror = Mirror(b"key")
    for namespace, name in kept:
        mirror.put("Service", {"metadata": {"namespace": namespace, "name": name}})
    missing = mirror.missing("Service", seen)
    assert set(missing) == kept - seen
    for name in missing:
        assert mirror.drop("Service", name) is not None
    assert {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in mirror.all("Service")} == (
        kept & seen
    )
    assert len(list(mirror.all("Service", "a"))) == len([each for each in kept & seen if each[0] == "a"])


def test_nothing_is_left_of_namespaces_that_are_gone() -> None:
    mirror = Mirror(b"key")
    for number in range(50):
        mirror.put("Service", {"metadata": {"namespace": f"n{number}", "name": "x"}})
        mirror.drop("Service", (f"n{number}", "x"))
        mirror.drop("Service", (f"n{number}", "never-there"))
    assert not mirror._objects["Service"]
