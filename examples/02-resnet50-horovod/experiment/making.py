"""Makes the data, once, with all processors."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from experiment.data import Data, DataPlan
from headrace.testing.debian_packages import package_root
from headrace.testing.photos import PACKAGE, PHOTO_FOLDER


def make_data(plan: DataPlan, cache: Path, *, report: Callable[[int, int], None]) -> Data:
    """Makes it, or finds it made; `report(shards done, of all)` is called now and then.

    Each file is a whole S3 object for versitygw. About 250 images a second on each core.
    """
    folder = cache / plan.folder_name()
    if not folder.exists():
        unfinished = cache / f"{plan.folder_name()}.{os.getpid()}.unfinished"
        try:
            unfinished.mkdir(parents=True)
            _make_all(plan, unfinished, cache, report)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    size_bytes = sum(path.stat().st_size for path in folder.glob("train-*"))
    return Data(folder, size_bytes, plan.images)


def _make_all(plan: DataPlan, folder: Path, cache: Path, report: Callable[[int, int], None]) -> None:
    # Once here, or every process of the pool would fetch the package.
    package_root(PACKAGE, PHOTO_FOLDER, cache=cache / "debian")
    files = list(plan.files())
    # TensorFlow takes seconds to import, and this is done once.
    maker = importlib.import_module("experiment.shards").ShardMaker
    # Spawned: TensorFlow does not survive a fork.
    context = multiprocessing.get_context("spawn")
    with context.Pool(len(os.sched_getaffinity(0)), maker.start, (plan, folder, cache)) as pool:
        for done, _ in enumerate(pool.imap_unordered(maker.make, files), start=1):
            report(done, len(files))
