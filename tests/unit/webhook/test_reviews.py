"""AdmissionReview: what is a question, and what the answer looks like."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from headrace.errors import ConfigError
from headrace.webhook.node_preference import Decision
from headrace.webhook.reviews import allowed, read_question

POD = {"metadata": {"generateName": "train-"}, "spec": {}}


def review(**request: Any) -> bytes:
    asked = {
        "uid": "705ab4f5",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "ml",
        "object": POD,
    }
    content = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked | request}
    return json.dumps(content).encode()


def test_a_pod_that_is_created_is_a_question() -> None:
    question = read_question(review())
    assert (question.uid, question.namespace, question.pod) == ("705ab4f5", "ml", POD)
    assert question.title == "pod ml/train-*"


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None},
        {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}},
        {"subResource": "binding"},
        {"object": None},
        {"object": []},
    ],
)
def test_anything_else_has_no_pod_and_is_answered_all_the_same(request_: dict[str, Any]) -> None:
    question = read_question(review(**request_))
    assert question.pod is None
    assert question.uid == "705ab4f5"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"[" * 100_000,
        review().replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"),
        review().replace(b"AdmissionReview", b"ConversionReview"),
        review(uid=""),
        review(uid=7),
    ],
)
def test_what_cannot_be_answered_is_refused(body: bytes) -> None:
    with pytest.raises(ConfigError):
        read_question(body)


def test_the_answer_echoes_the_uid_and_carries_the_patch() -> None:
    patch = ({"op": "add", "path": "/spec/affinity", "value": {}},)
    answer = allowed("705ab4f5", Decision(patch, ("mind this",)))
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = answer["response"]
    assert (response["uid"], response["allowed"], response["patchType"]) == ("705ab4f5", True, "JSONPatch")
    assert json.loads(base64.b64decode(response["patch"])) == list(patch)
    assert response["warnings"] == ["mind this"]


def test_without_a_patch_the_answer_names_no_type_of_patch() -> None:
    assert allowed("705ab4f5")["response"] == {"uid": "705ab4f5", "allowed": True}
