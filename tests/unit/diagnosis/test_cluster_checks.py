from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from headrace.api.kinds import KINDS
from headrace.diagnosis import cluster_checks, cluster_facts
from headrace.diagnosis.cluster_facts import ClusterFacts, ProgramFacts
from headrace.diagnosis.findings import Level
from headrace.diagnosis.nodes import NodeFacts
from headrace.errors import MissingFileError, RefusedError
from headrace.kube.client import KubeClient

KIND_NAMES = [kind.name for kind in KINDS.values() if not kind.is_core]
NODE = NodeFacts("n1", "6.12.0", "v1.33.0", is_ready=True, host_label="n1")
OPERATOR = ProgramFacts("operator", "headrace/headrace-operator", "0.1.0", 2, 2)
CSI = ProgramFacts("csi", "headrace/headrace-csi", "0.1.0", 3, 3)
WEBHOOK = ProgramFacts("webhook", "headrace/headrace-webhook", "0.1.0", 1, 1)
FINE = ClusterFacts(
    server="v1.33.0",
    kinds=dict.fromkeys(KIND_NAMES, ("v1alpha1",)),
    missing_kinds=(),
    programs=(OPERATOR, CSI, WEBHOOK),
    has_driver=True,
    webhooks={"headrace": True},
    nodes=(NODE,),
)


def test_nothing_is_said_against_a_cluster_that_is_whole() -> None:
    assert {finding.level for finding in cluster_checks.check(FINE, "0.1.0")} == {Level.GOOD}


@pytest.mark.parametrize(
    ("facts", "check", "level", "words"),
    [
        (replace(FINE, missing_kinds=("Dataset",)), "CRDs", Level.FAULT, "no Dataset"),
        (replace(FINE, kinds={**FINE.kinds, "Dataset": ("v2",)}), "CRDs", Level.FAULT, "not as v1alpha1"),
        (replace(FINE, programs=(CSI, WEBHOOK)), "operator", Level.FAULT, "not installed"),
        (replace(FINE, programs=(OPERATOR, WEBHOOK)), "CSI driver", Level.FAULT, "not installed"),
        (
            replace(FINE, programs=(replace(OPERATOR, ready=0), CSI, WEBHOOK)),
            "operator",
            Level.FAULT,
            "0 of 2",
        ),
        (
            replace(FINE, programs=(OPERATOR, replace(CSI, wanted=0, ready=0), WEBHOOK)),
            "csi",
            Level.FAULT,
            "none",
        ),
        (
            replace(FINE, programs=(replace(OPERATOR, version="0.0.9"), CSI, WEBHOOK)),
            "operator",
            Level.NOTE,
            "0.0.9",
        ),
        (replace(FINE, has_driver=False), "CSIDriver", Level.FAULT, "not registered"),
        (replace(FINE, webhooks={}), "webhook", Level.NOTE, "not installed"),
        (replace(FINE, webhooks={"headrace": False}), "webhook", Level.FAULT, "no authority"),
        (replace(FINE, programs=(OPERATOR, CSI)), "webhook", Level.FAULT, "nothing answers"),
        (replace(FINE, nodes=(replace(NODE, is_ready=False),)), "node n1", Level.FAULT, "not ready"),
        (
            replace(FINE, nodes=(replace(NODE, trouble=("DiskPressure",)),)),
            "node n1",
            Level.NOTE,
            "DiskPressure",
        ),
        (replace(FINE, nodes=(replace(NODE, host_label=""),)), "node n1", Level.FAULT, "hostname"),
        (replace(FINE, nodes=(replace(NODE, kernel="4.18.0"),)), "node n1", Level.FAULT, "too old"),
        (replace(FINE, refused_rights=("create datasets",)), "rights", Level.NOTE, "create datasets"),
        (replace(FINE, unknown={"nodes": "forbidden"}), "nodes", Level.NOTE, "forbidden"),
    ],
)
def test_what_a_cluster_lacks_is_named_with_its_remedy(
    facts: ClusterFacts, check: str, level: Level, words: str
) -> None:
    found = [each for each in cluster_checks.check(facts, "0.1.0") if each.check == check]
    assert any(each.level is level and words in each.text and each.remedy for each in found), found


class Client:
    """Answers as an API server does to somebody who may not look at nodes."""

    async def read(self, path: str, what: str) -> Mapping[str, Any]:
        if path == "/version":
            return {"gitVersion": "v1.33.1"}
        if path == "/apis/data.fluid.io":
            return {"versions": [{"version": "v1alpha1"}]}
        if path.startswith("/apis/data.fluid.io/"):
            return {"resources": [{"name": "datasets", "kind": "Dataset"}]}
        raise MissingFileError.of(f"{what}: there is none")

    async def list(self, kind: str, labels: object = None) -> list[Mapping[str, Any]]:
        if kind == "Node":
            raise RefusedError.of("nodes is forbidden")
        if kind == "DaemonSet":
            labels = {"app.kubernetes.io/component": "csi", "app.kubernetes.io/version": "0.1.0"}
            metadata = {"name": "headrace-csi", "namespace": "h", "labels": labels}
            return [
                {
                    "kind": kind,
                    "metadata": metadata,
                    "status": {"desiredNumberScheduled": 3, "numberReady": 1},
                }
            ]
        if kind == "MutatingWebhookConfiguration":
            return [{"kind": kind, "metadata": {"name": "headrace"}, "webhooks": [{"clientConfig": {}}]}]
        return []

    async def may(self, verb: str, group: str, plural: str, namespace: str | None) -> bool:
        return verb != "delete"


def test_facts_are_gathered_though_some_may_not_be_asked() -> None:
    facts = asyncio.run(cluster_facts.gather(cast(KubeClient, Client()), "default", "fuse.csi.fluid.io"))
    assert (
        facts.server == "v1.33.1"
        and "Dataset" not in facts.missing_kinds
        and "DataLoad" in facts.missing_kinds
    )
    assert facts.programs == (ProgramFacts("csi", "h/headrace-csi", "0.1.0", 3, 1),)
    assert facts.has_driver is False and facts.webhooks == {"headrace": False}
    assert facts.unknown == {"nodes": "nodes is forbidden"}
    assert "delete datasets" in facts.refused_rights and "get datasets" not in facts.refused_rights
