"""The key of digests: one for all operators, in the Secret that the chart brings empty."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from memory_cluster import MemoryCluster

from headrace.operator.operator_process import KEY_SECRET, digest_key


def _cluster(*, with_secret: bool) -> MemoryCluster:
    cluster = MemoryCluster()
    if with_secret:
        labels = {"app.kubernetes.io/managed-by": "Helm"}
        metadata = {"name": KEY_SECRET, "namespace": "system", "labels": labels}
        cluster.add({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    return cluster


def _keys(cluster: Any, count: int) -> list[bytes]:
    async def scenario() -> list[bytes]:
        return await asyncio.gather(*(digest_key(cluster, "system") for _ in range(count)))

    return asyncio.run(scenario())


class _Slow(MemoryCluster):
    """Each call lets others go first."""

    async def get(self, kind: str, namespace: str | None, name: str) -> dict[str, Any] | None:
        found = await super().get(kind, namespace, name)
        await asyncio.sleep(0)
        return found


@pytest.mark.parametrize("with_secret", [True, False], ids=["the chart's", "none"])
def test_operators_that_start_at_once_have_one_key_and_keep_it(with_secret: bool) -> None:
    cluster = _Slow()
    cluster.objects |= _cluster(with_secret=with_secret).objects
    keys = _keys(cluster, 3)
    assert len(set(keys)) == 1 and len(keys[0]) == 32
    assert _keys(cluster, 1) == keys[:1]


def test_the_labels_of_the_charts_secret_stay() -> None:
    cluster = _cluster(with_secret=True)
    _keys(cluster, 1)
    assert cluster.objects["Secret", "system", KEY_SECRET]["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "Helm"
    }
