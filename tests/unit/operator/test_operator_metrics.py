"""What an operator tells Prometheus."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from operator_context import OperatorWorld
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from headrace.operator.metrics import metrics_text
from headrace.operator.mirror import Mirror
from headrace.work_queue import ReconcileResult, WorkQueue


class Idle:
    async def reconcile(self, namespace: str, name: str) -> ReconcileResult:
        return ReconcileResult()

    async def close(self) -> None: ...


def dataset(name: str, phase: str | None) -> dict[str, Any]:
    status = {"status": {"phase": phase}} if phase else {}
    return {"metadata": {"namespace": "ml", "name": name}, **status}


def numbers(text: str) -> dict[tuple[str, ...], float]:
    """Each sample by its name and the values of its labels."""
    families = text_string_to_metric_families(text)
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_only_who_leads_tells_of_datasets() -> None:
    mirror = Mirror(b"key")
    for name, phase in (("a", "Bound"), ("b", "Bound"), ("c", "Failed"), ("new", None)):
        mirror.put("Dataset", dataset(name, phase))
    waiting = numbers(metrics_text(mirror, None, is_ready=False))
    assert waiting["headrace_operator_leads",] == waiting["headrace_operator_listed",] == 0
    assert not [key for key in waiting if key[0] == "headrace_operator_datasets"]

    async def lead() -> dict[tuple[str, ...], float]:
        queue = WorkQueue(Idle(), logging.getLogger("test"))
        return numbers(metrics_text(mirror, queue, is_ready=True))

    leading = asyncio.run(lead())
    assert leading["headrace_operator_leads",] == leading["headrace_operator_listed",] == 1
    assert leading["headrace_operator_datasets", "Bound"] == 2
    assert leading["headrace_operator_datasets", "Failed"] == 1


def test_a_look_of_which_a_part_failed_is_not_complete(world: OperatorWorld) -> None:
    world.declare()
    world.sync()
    world.cluster.refused.add(("apply", "StatefulSet"))
    assert not asyncio.run(world.reconciler.reconcile("default", "imagenet")).is_complete
    world.cluster.refused.clear()
    world.sync()
    assert asyncio.run(world.reconciler.reconcile("default", "imagenet")).is_complete
