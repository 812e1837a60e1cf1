"""Makes the data, once, with all processors.

TensorFlow writes the records. Where this Python has none, that of Horovod does: `make_data_with`.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
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


def make_data_with(python: Path, plan: DataPlan, cache: Path, *, report: Callable[[int, int], None]) -> Data:
    """Like `make_data`, by the TensorFlow and Pillow of another Python."""
    if not (cache / plan.folder_name()).exists():
        command = [str(python), "-m", "experiment.making", json.dumps(asdict(plan)), str(cache)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            for line in process.stdout:
                done, total = line.split()
                report(int(done), int(total))
        if process.returncode:
            sys.exit(f"run.py: the data could not be made: {python} ended with {process.returncode}")
    return make_data(plan, cache, report=report)


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


if __name__ == "__main__":
    make_data(
        DataPlan(**json.loads(sys.argv[1])),
        Path(sys.argv[2]),
        report=lambda done, total: print(done, total, flush=True),
    )
