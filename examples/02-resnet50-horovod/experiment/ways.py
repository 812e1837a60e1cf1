"""The runs: every shape by every way, each from an empty page cache, and the caches as the way wants them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from experiment import cluster as clusters
from experiment.cluster import DATASET, Cluster
from experiment.jobs import WORKING_DIR, Job, train
from experiment.plan import Plan, Shape, Way, ranks_per_machine
from experiment.runs import Run
from experiment.storage import Storage, s3fs_on

EXAMPLE = Path(__file__).resolve().parents[1]
HOROVOD = EXAMPLE.parents[1] / ".cache" / "horovod"
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
NAME_ENDS = {Way.STRAIGHT: "s3fs", Way.COLD: "headrace-cold", Way.WARM: "headrace-warm"}


class Experiment:
    """Runs trainings on a cluster that is up, beside a storage that serves."""

    def __init__(
        self, plan: Plan, cluster: Cluster, storage: Storage, caches: Path, say: Callable[[str], None]
    ) -> None:
        self._plan, self._cluster, self._storage = plan, cluster, storage
        self._caches, self._say = caches, say

    def run(self, shape: Shape) -> Iterator[Run]:
        """The three ways, one after the other. The warm run reads what the cold one left, and what a load added."""
        with s3fs_on(self._cluster.nodes[: shape.machines], self._storage, self._folder / "s3fs"):
            yield self._run(
                shape, Way.STRAIGHT, ("--data-dir", f"{self._folder / 's3fs'}:/data"), "/data/$HEADRACE_NODE"
            )
        with self._dataset(shape):
            data = ("--data", f"{DATASET}:/data"), "/data/imagenet"
            yield self._run(shape, Way.COLD, *data)
            clusters.load(self._cluster)
            yield self._run(shape, Way.WARM, *data)

    @property
    def _folder(self) -> Path:
        return self._cluster.work

    @contextlib.contextmanager
    def _dataset(self, shape: Shape) -> Iterator[None]:
        keys = self._storage.server.credentials
        values = {
            "access_key_id": keys.access_key_id,
            "secret_access_key": keys.secret_access_key,
            "endpoint": self._storage.server.endpoint,
            "nodes": self._plan.nodes,
            "cache": self._caches / shape.name,
        }
        with clusters.dataset(self._cluster, **values):
            yield

    def _run(self, shape: Shape, way: Way, data: tuple[str, ...], data_dir: str) -> Run:
        self._say(
            f"horovod-{shape.name}, {way}: {self._plan.steps(shape)} steps of {self._plan.step_s:.3f} s"
        )
        dropped = drop_page_cache()
        cached = "" if way is Way.STRAIGHT else clusters.cached_percentage(self._cluster)
        bytes_before, requests_before = self._storage.link.received_bytes(), self._requests()
        outcome = train(self._cluster.commands, self._job(shape, way, data, data_dir), tell=self._tell)
        return Run(
            shape,
            way,
            outcome.result,
            outcome.job,
            self._storage.link.received_bytes() - bytes_before,
            self._requests() - requests_before,
            dropped,
            cached,
        )

    def _job(self, shape: Shape, way: Way, data: tuple[str, ...], data_dir: str) -> Job:
        plan = self._plan
        ranks = ranks_per_machine(len(os.sched_getaffinity(0)), shape, plan.nodes)
        environment = {
            "DATA_DIR": data_dir,
            "num_batch": str(plan.steps(shape)),
            "datasets_num_private_threads": "8",
            "accelerator": plan.accelerator,
            "slowdown": f"{plan.slowdown:g}",
            "batch_size": str(plan.batch_size),
            "sample_images": str(plan.sample_images),
            "parallel_files": str(plan.parallel_files),
            "prefetch_batches": str(plan.prefetch_batches),
            "ranks_per_machine": str(ranks),
            "HOROVOD_PYTHON": str(HOROVOD / "bin" / "python"),
        }
        flags = (*data, "--data-dir", f"{EXAMPLE}:{WORKING_DIR.rstrip('/')}")
        return Job(
            f"horovod-resnet50-{shape.name}-{NAME_ENDS[way]}",
            shape.machines,
            shape.accelerators,
            flags,
            environment,
        )

    def _requests(self) -> int:
        return self._storage.server.requests().total()

    def _tell(self, text: str) -> None:
        self._say(f"    {text}")


def drop_page_cache() -> bool:
    """Empties the kernel's page cache, so that a run starts from the disk; False without the right to."""
    os.sync()
    try:
        DROP_CACHES.write_text("3")
    except OSError:
        return False
    return True
