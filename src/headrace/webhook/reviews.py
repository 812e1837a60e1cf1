"""AdmissionReview in its version v1: what the API server asks, and what it is told. Pure.

A pod is always allowed; of declared objects those are refused that can never be right.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.api.kinds import KINDS
from headrace.api.names import GROUP
from headrace.errors import ConfigError
from headrace.webhook.declared_objects import Judgement
from headrace.webhook.node_preference import Decision

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
_POD = {"group": "", "version": "v1", "kind": "Pod"}
_REFUSED = 422


@dataclass(frozen=True, slots=True)
class Question:
    """A request of the API server. `pod` is `None` unless a pod is about to be created, `declared` unless it is about
    an object of ours that is about to be written; `before` is what stands there then.
    """

    uid: str
    namespace: str
    pod: Mapping[str, Any] | None
    declared: Mapping[str, Any] | None = None
    before: Mapping[str, Any] | None = None

    @property
    def title(self) -> str:
        """The object as logs name it: one that is yet to get its name ends in a star."""
        thing = self.pod if self.declared is None else self.declared
        kind = "pod" if self.declared is None else str(self.declared.get("kind")).lower()
        metadata = (thing or {}).get("metadata")
        if not isinstance(metadata, dict):
            return f"{kind} {self.namespace}/*"
        name = metadata.get("name") or f"{metadata.get('generateName', '')}*"
        return f"{kind} {self.namespace}/{name}"


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
    namespace = str(request.get("namespace") or "")
    declared, before = _declared_of(request, namespace)
    return Question(request["uid"], namespace, _pod_of(request), declared, before)


def _pod_of(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    pod = request.get("object")
    if request.get("operation") != "CREATE" or request.get("kind") != _POD or request.get("subResource"):
        return None
    return pod if isinstance(pod, dict) else None


def _declared_of(
    request: Mapping[str, Any], namespace: str
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """An object of ours, and what it is to take the place of."""
    kind, thing, before = (request.get(key) for key in ("kind", "object", "oldObject"))
    is_ours = isinstance(kind, dict) and kind.get("group") == GROUP and kind.get("kind") in KINDS
    if not is_ours or not isinstance(thing, dict) or request.get("subResource"):
        return None, None
    metadata = thing.get("metadata")
    if request.get("operation") not in {"CREATE", "UPDATE"} or not isinstance(metadata, dict):
        return None, None
    placed = {**thing, "metadata": {"namespace": namespace, **metadata}}
    return placed, before if isinstance(before, dict) else None


def judged(uid: str, judgement: Judgement) -> dict[str, Any]:
    """The answer for a declared object: allowed, maybe with warnings, or refused with the reason."""
    response: dict[str, Any] = {"uid": uid, "allowed": not judgement.refusal}
    if judgement.refusal:
        response["status"] = {"code": _REFUSED, "message": judgement.refusal}
    if judgement.warnings:
        response["warnings"] = list(judgement.warnings)
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def allowed(uid: str, decision: Decision = Decision()) -> dict[str, Any]:  # noqa: B008 - frozen
    """The answer: allowed, with the patch and the warnings if there are any."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if decision.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(decision.patch).encode()).decode()
    if words := (*decision.warnings, *decision.notices):
        response["warnings"] = list(words)
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}
