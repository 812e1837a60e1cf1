"""Open files and maps without a descriptor stay right on real nodes while what serves them dies and is replaced.

Each way once; `make soak` has them again and again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from charts import Release
from datasets_on_kubernetes import namespace_of, served_bucket
from outliving import Holding, holding_of

from headrace.testing.kubernetes.build_images import TAG, build_images
from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl
from headrace.testing.kubernetes.next_image import next_image

pytestmark = [pytest.mark.root, pytest.mark.slow]

NODES = ("node-1", "node-2")


@pytest.fixture(scope="module")
def holding(
    release: Release,
    kubernetes: Kubectl,
    cluster: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Holding]:
    """A program on each of two nodes that holds all files of a dataset."""
    folder = tmp_path_factory.mktemp("outliving")
    engine = build_images().engine
    cluster.load_image(next_image(engine, "next", {"/etc/next": b"next\n"}, to=folder / engine.name))
    with served_bucket(cluster.host_address, folder / "s3") as bucket:
        bucket.fill()
        with (
            namespace_of(kubernetes, "held") as namespace,
            holding_of(kubernetes, release, namespace, bucket, NODES, (TAG, "next")) as made,
        ):
            yield made
    release.install()


@pytest.mark.parametrize(
    "way",
    [
        *("out of memory", "killed", "deleted", "evicted", "driver upgraded", "driver killed"),
        *("engine upgraded", "secret rotated", "node drained", "scaled in"),
    ],
)
def test_open_files_and_maps_stay_right(holding: Holding, way: str) -> None:
    holding.ways()[way]()
    holding.read_on()
