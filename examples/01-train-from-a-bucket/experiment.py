"""The runs of the demo: three workloads, each by every way, each from an empty page cache."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

import ways
from progress import say
from runs import drop_page_cache, run_program
from storage import FASHION_BUCKET, PHOTO_BUCKET, Data, Storage

S3FS, COLD, WARM, LOCAL = "s3fs", "Headrace cold", "Headrace warm", "local disk"
# Between two ways. The kernels are deterministic, so it is 0 unless bytes differ.
ACCURACY_TOLERANCE = 0.002


@dataclass(frozen=True)
class Sizes:
    """How much each workload reads."""

    photos: int
    record_images: int
    file_images: int

    @classmethod
    def scaled(cls, scale: float) -> Sizes:
        """The whole demo at 1; less for a try. Whole batches, so that all numbers stay comparable."""
        photos = max(round(20_000 * scale / 400), 1) * 400
        return cls(photos, max(round(60_000 * scale), 1_280), max(round(12_000 * scale), 1_280))


@dataclass(frozen=True)
class Row:
    """One workload by one way."""

    workload: str
    way: str
    # From the command that mounts to the list of files in the hands of the program.
    ready_s: float
    # Of `bucket_bytes`, those that came until the mount stood: names.
    mount_bytes: int
    time_s: float
    images: int
    bucket_bytes: int
    bucket_requests: int
    accelerator_use: float | None = None
    accuracy: float | None = None
    checksum: int | None = None
    page_cache_dropped: bool = True

    @property
    def images_per_s(self) -> float:
        return self.images / self.time_s

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "images_per_s": self.images_per_s}


@dataclass(frozen=True)
class Workload:
    """A program over one bucket."""

    name: str
    bucket: str
    prefix: str
    local: Path
    script: str
    arguments: Callable[[Path], list[str]]
    # `headrace warm` before the warm run; else it has what the cold run left in the cache.
    warmed: bool


def workloads(data: Data, sizes: Sizes) -> list[Workload]:
    def training(form: str, images: int) -> Callable[[Path], list[str]]:
        return lambda folder: [str(folder), form, "--images", str(images)]

    photos = Workload(
        name="epoch of one emulated H100 over photos",
        bucket=PHOTO_BUCKET,
        prefix="",
        local=data.photos,
        script="accelerators.py",
        arguments=lambda folder: [str(folder)],
        warmed=True,
    )
    # 70,000 names, of which the training reads a part: warming all of them is not what it needs.
    files = Workload(
        name="training from image files",
        bucket=FASHION_BUCKET,
        prefix="png",
        local=data.fashion / "png",
        script="train.py",
        arguments=training("png", sizes.file_images),
        warmed=False,
    )
    records = Workload(
        name="training from TFRecords",
        bucket=FASHION_BUCKET,
        prefix="tfrecord",
        local=data.fashion / "tfrecord",
        script="train.py",
        arguments=training("tfrecord", sizes.record_images),
        warmed=True,
    )
    return [photos, files, records]


@dataclass
class Experiment:
    """Runs a workload by each way and keeps the rows."""

    storage: Storage
    commands: ways.Commands
    cache: Path
    rows: list[Row]
    warm_s: dict[str, float]

    def run(self, workload: Workload, chosen: tuple[str, ...]) -> None:
        for way in chosen:
            say(f"{workload.name}: {way}")
            if way == WARM and workload.warmed:
                self._warm(workload)
            self.rows.append(self._run_one(workload, way))

    def _run_one(self, workload: Workload, way: str) -> Row:
        dropped = drop_page_cache()
        link, server = self.storage.link, self.storage.server
        bytes_before, requests_before = link.received_bytes(), server.requests().total()
        started = time.monotonic()
        with self._folder(workload, way) as folder:
            mounted_s, mount_bytes = time.monotonic() - started, link.received_bytes() - bytes_before
            result = run_program(workload.script, *workload.arguments(folder))
        return Row(
            workload=workload.name,
            way=way,
            ready_s=mounted_s + result["list_s"],
            mount_bytes=mount_bytes,
            time_s=result["time_s"],
            images=result["images"],
            bucket_bytes=link.received_bytes() - bytes_before,
            bucket_requests=server.requests().total() - requests_before,
            accelerator_use=result.get("accelerator_use"),
            accuracy=result.get("accuracy"),
            checksum=result.get("checksum"),
            page_cache_dropped=dropped,
        )

    def _folder(self, workload: Workload, way: str) -> AbstractContextManager[Path]:
        if way == S3FS:
            return ways.s3fs(self.commands, workload.bucket, workload.prefix)
        if way == LOCAL:
            return contextlib.nullcontext(workload.local)
        return self._headrace(workload)

    @contextlib.contextmanager
    def _headrace(self, workload: Workload) -> Iterator[Path]:
        # A cache of its own, so that no workload is warm by another.
        folder = self.cache / workload.name.replace(" ", "-")
        with ways.headrace(self.commands, workload.bucket, workload.prefix, folder) as mountpoint:
            yield mountpoint

    def _warm(self, workload: Workload) -> None:
        with self._headrace(workload) as mountpoint:
            self.warm_s[workload.name] = ways.warm(self.commands, mountpoint)


def disagreements(rows: list[Row]) -> list[str]:
    """What the ways disagree on although they read the same files; empty when all is well."""
    found: list[str] = []
    for workload in dict.fromkeys(row.workload for row in rows):
        same = [row for row in rows if row.workload == workload]
        accuracies = [row.accuracy for row in same if row.accuracy is not None]
        if accuracies and max(accuracies) - min(accuracies) > ACCURACY_TOLERANCE:
            found.append(f"{workload}: the accuracies differ: {accuracies}")
        for field in ("images", "checksum"):
            values = {row.way: getattr(row, field) for row in same}
            if len(set(values.values())) > 1:
                found.append(f"{workload}: {field} differs: {values}")
    return found
