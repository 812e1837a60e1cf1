"""AdmissionReview in its version v1: what the API server asks, and what it is told. Pure.

A question that can be told apart from others is always answered with "allowed".
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import ConfigError
from headrace.webhook.node_preference import Decision

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
_POD = {"group": "", "version": "v1", "kind": "Pod"}


@dataclass(frozen=True, slots=True)
class Question:
    """A request of the API server. `pod` is `None` unless a pod is about to be created."""

    uid: str
    namespace: str
    pod: Mapping[str, Any] | None

    @property
    def title(self) -> str:
        """The pod as logs name it: one that is yet to get its name ends in a star."""
        metadata = (self.pod or {}).get("metadata")
        if not isinstance(metadata, dict):
            return f"pod {self.namespace}/*"
        name = metadata.get("name") or f"{metadata.get('generateName', '')}*"
        return f"pod {self.namespace}/{name}"


def read_question(body: bytes) -> Question:
    """The question in a body. Raises `ConfigError` for what is none, so that it cannot be answered."""
    try:
        review = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ConfigError.of("the body is no JSON") from error
    if not isinstance(review, dict) or (review.get("apiVersion"), review.get("kind")) != (API_VERSION, KIND):
        raise ConfigError.of(f"the body is no {KIND} of {API_VERSION}", hint="admissionReviewVersions: [v1]")
    request = review.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str) or not request["uid"]:
        raise ConfigError.of("the review has no request with a uid")
    return Question(request["uid"], str(request.get("namespace") or ""), _pod_of(request))


def _pod_of(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    pod = request.get("object")
    if request.get("operation") != "CREATE" or request.get("kind") != _POD or request.get("subResource"):
        return None
    return pod if isinstance(pod, dict) else None


def allowed(uid: str, decision: Decision = Decision()) -> dict[str, Any]:  # noqa: B008 - frozen
    """The answer: allowed, with the patch and the warnings if there are any."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if decision.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(decision.patch).encode()).decode()
    if words := (*decision.warnings, *decision.notices):
        response["warnings"] = list(words)
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}
