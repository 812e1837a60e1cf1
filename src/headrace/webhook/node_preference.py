"""The preference of a pod that uses datasets: it prefers, or by its label requires, the nodes that hold their data.
Pure.

Nothing here may keep a pod from running that would run without it, unless its own label asks for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.webhook.affinity import (
    PREFERRED,
    REQUIRED,
    Alternatives,
    is_pinned,
    missing_preferences,
    preferences,
    restricted,
)

HOST_LABEL = "kubernetes.io/hostname"
SKIP_LABEL = "fluid.io/enable-injection"
WEIGHT = 100
_PATH = "/spec/affinity"

Operation = dict[str, Any]
Homes = Mapping[str, Alternatives]
"""Claims of datasets, by name, each with the terms of the nodes that hold its data; no terms: no node does."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A JSON Patch of the pod, and words for whoever created it: `warnings` tell of demands that are not met."""

    patch: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def scheduling_label(dataset: str) -> str:
    """The label of a pod that says how the dataset steers it: its value `required` makes the preference a must."""
    return f"fluid.io/dataset.{dataset}.sched"


def claims_of(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """The claims that the pod names, each once. Ephemeral volumes have claims of their own, never a dataset's."""
    volumes = (pod.get("spec") or {}).get("volumes") or []
    named = (((each or {}).get("persistentVolumeClaim") or {}).get("claimName") for each in volumes)
    return tuple(dict.fromkeys(name for name in named if isinstance(name, str) and name))


def decide(pod: Mapping[str, Any], homes: Homes) -> Decision:
    """The decision on a pod. Nothing when it uses no dataset, does not want to, or has a node already."""
    spec = pod.get("spec") or {}
    labels = (pod.get("metadata") or {}).get("labels") or {}
    if spec.get("nodeName") or labels.get(SKIP_LABEL) == "false":
        return Decision()
    used = [name for name in claims_of(pod) if name in homes]
    demanded = [name for name in used if labels.get(scheduling_label(name)) == "required"]
    musts, warnings = _musts(spec, demanded, homes)
    wishes = [name for name in used if name not in musts and homes[name]]
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    changed = _preferring(node_affinity, wishes, homes) | _requiring(node_affinity, musts, homes)
    return Decision(_patch(spec, changed), warnings)


def _musts(
    spec: Mapping[str, Any], demanded: list[str], homes: Homes
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The datasets that the pod must be near to, and a warning for each demand that is not met."""
    homeless = [name for name in demanded if not homes[name]]
    musts = [name for name in demanded if homes[name]]
    # Our own demand may have left a single node, which must not look like a pin when we are asked again.
    met = [name for name in musts if _is_met(spec, homes[name])]
    pinned = [name for name in musts if name not in met] if is_pinned(spec, HOST_LABEL) else []
    warnings = [(name, "no node holds data of it yet") for name in homeless]
    warnings += [(name, "the pod is for one node only") for name in pinned]
    return tuple(name for name in musts if name not in pinned), tuple(
        f"{scheduling_label(name)}: not applied, {why}" for name, why in warnings
    )


def _is_met(spec: Mapping[str, Any], home: Alternatives) -> bool:
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    return required is not None and restricted(required, home) is None


def _preferring(node_affinity: Mapping[str, Any], names: list[str], homes: Homes) -> dict[str, Any]:
    wanted = [entry for name in names for entry in preferences(homes[name], WEIGHT)]
    present = node_affinity.get(PREFERRED) or []
    missing = missing_preferences(present, wanted)
    return {PREFERRED: [*present, *missing]} if missing else {}


def _requiring(node_affinity: Mapping[str, Any], names: tuple[str, ...], homes: Homes) -> dict[str, Any]:
    required = before = node_affinity.get(REQUIRED)
    for name in names:
        required = restricted(required, homes[name]) or required
    return {} if required is before else {REQUIRED: required}


def _patch(spec: Mapping[str, Any], changed: Mapping[str, Any]) -> tuple[Operation, ...]:
    """The operations that set these fields of the pod's node affinity. `add` writes over a field that is there."""
    affinity = spec.get("affinity")
    if not changed:
        return ()
    if not affinity:
        return ({"op": "add", "path": _PATH, "value": {"nodeAffinity": dict(changed)}},)
    if not affinity.get("nodeAffinity"):
        return ({"op": "add", "path": f"{_PATH}/nodeAffinity", "value": dict(changed)},)
    return tuple(
        {"op": "add", "path": f"{_PATH}/nodeAffinity/{field}", "value": value}
        for field, value in changed.items()
    )
