"""JPEG photos in ImageNet's shape: class folders of files of about 110 KB, cut from real photographs.

The photographs are those of Debian's mate-backgrounds. Each file is a random crop of one of them, mirrored
or not and changed a little in brightness, so no two files hold the same bytes. The same seed gives the same
files with the same version of Pillow. File sizes follow a log-normal distribution: mean 110 KB, standard
deviation about 75 KB, as a training set of photographs from the web has few small files and a long tail.
"""

from __future__ import annotations

import hashlib
import io
import math
import multiprocessing
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from PIL import Image, ImageOps

from headrace.testing.buckets import set_etag
from headrace.testing.debian_packages import package_root

PACKAGE = "mate-backgrounds"
PHOTO_FOLDER = "usr/share/backgrounds/mate/nature"
# A mark that changes when the files of the same seed would differ.
FORMAT_VERSION = 1
QUALITY = 92
SIZE_SPREAD = 0.62
# Measured: what is cut off at both ends and brightened photos bring the mean down by this much.
CALIBRATION = 1.045
SMALLEST_BYTES, LARGEST_BYTES = 12_000, 800_000
SMALLEST_SIDE_PX = 96
# A crop of a larger share of its photo would look like all the others.
LARGEST_SHARE = 0.6
LONGEST_PHOTO_SIDE_PX = 2000


@dataclass(frozen=True)
class PhotoSet:
    """The photographs to make: `classes` folders that share `files` files."""

    files: int
    classes: int = 100
    mean_bytes: int = 110_000
    seed: int = 1

    def relative_path(self, index: int) -> str:
        """As in ImageNet: "n01440764/n01440764_10026.JPEG"; files of a class follow one another."""
        # Spread over WordNet's numbers, in ascending order, as ImageNet's classes are.
        label = f"n{1_440_764 + index * self.classes // self.files * 139_363:08d}"
        return f"{label}/{label}_{index:05d}.JPEG"

    def folder_name(self) -> str:
        text = f"{FORMAT_VERSION} {sorted(asdict(self).items())}"
        return f"photos-{self.files}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def make_photos(wanted: PhotoSet, cache: Path, *, report: Callable[[int, int], None] | None = None) -> Path:
    """The folder with the photos, made unless it is there; `report(done, total)` is called now and then.

    Every file carries its etag for versitygw. About 280 files a second on each core.
    """
    folder = cache / wanted.folder_name()
    if folder.exists():
        return folder
    unfinished = cache / f"{wanted.folder_name()}.{os.getpid()}.unfinished"
    try:
        # Once here, or every process of the pool would fetch the package.
        _source_photos(cache)
        _make_all(wanted, unfinished, cache, report or (lambda _done, _total: None))
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _make_all(wanted: PhotoSet, folder: Path, cache: Path, report: Callable[[int, int], None]) -> None:
    for index in range(wanted.files):
        (folder / wanted.relative_path(index)).parent.mkdir(parents=True, exist_ok=True)
    # Spawned: the caller may have threads, and a forked child must not inherit their locks.
    context = multiprocessing.get_context("spawn")
    with context.Pool(len(os.sched_getaffinity(0)), _Maker.start, (wanted, folder, cache)) as pool:
        for done, _ in enumerate(
            pool.imap_unordered(_Maker.make, range(wanted.files), chunksize=64), start=1
        ):
            if done % 200 == 0 or done == wanted.files:
                report(done, wanted.files)


def _source_photos(cache: Path) -> list[Path]:
    # The package's other folders hold drawings.
    root = package_root(PACKAGE, PHOTO_FOLDER, cache=cache / "debian")
    return sorted((root / PHOTO_FOLDER).glob("*.jpg"))


class PhotoCutter:
    """The decoded photographs, from which it cuts the files of a set; one of them takes a second to make."""

    def __init__(self, wanted: PhotoSet, cache: Path) -> None:
        self._wanted = wanted
        self._photos = [_decode(path) for path in _source_photos(cache)]
        self._bytes_per_px = [_measure(photo) for photo in self._photos]

    @property
    def photographs(self) -> int:
        """The number of photographs."""
        return len(self._photos)

    def cut(self, index: int, *, turn: int = 0) -> tuple[int, bytes]:
        """(number of the photograph, JPEG) of file `index`, the same each time.

        `turn` (0 to 2) says by how many places red, green and blue change roles: more kinds of pictures than photos.
        """
        choice = random.Random(f"{self._wanted.seed}/{index}")  # noqa: S311 - reproducible, not secret
        which, area_px = self._choose_photo(choice)
        return which, _crop(self._photos[which], area_px, choice, turn)

    def _choose_photo(self, choice: random.Random) -> tuple[int, float]:
        """A photo that is large enough for a file of a drawn size, and the pixels to cut from it."""
        # The mean of a log-normal distribution is exp(mu + sigma²/2).
        mu = math.log(self._wanted.mean_bytes * CALIBRATION) - SIZE_SPREAD**2 / 2
        size_bytes = min(max(choice.lognormvariate(mu, SIZE_SPREAD), SMALLEST_BYTES), LARGEST_BYTES)
        areas = [size_bytes / rate for rate in self._bytes_per_px]
        fitting = [
            n for n, photo in enumerate(self._photos) if areas[n] < photo.width * photo.height * LARGEST_SHARE
        ]
        which = choice.choice(fitting or [max(range(len(areas)), key=self._bytes_per_px.__getitem__)])
        return which, areas[which]


class _Maker:
    """What one process of the pool keeps."""

    current: _Maker

    def __init__(self, wanted: PhotoSet, folder: Path, cache: Path) -> None:
        self.wanted = wanted
        self.folder = folder
        self.cutter = PhotoCutter(wanted, cache)

    @classmethod
    def start(cls, wanted: PhotoSet, folder: Path, cache: Path) -> None:
        cls.current = cls(wanted, folder, cache)

    @classmethod
    def make(cls, index: int) -> int:
        return cls.current.make_one(index)

    def make_one(self, index: int) -> int:
        """Writes file `index`; its size."""
        _, content = self.cutter.cut(index)
        path = self.folder / self.wanted.relative_path(index)
        path.write_bytes(content)
        set_etag(path, hashlib.md5(content, usedforsecurity=False).hexdigest())
        return len(content)


def _decode(path: Path) -> Image.Image:
    with Image.open(path) as photo:
        photo.thumbnail((LONGEST_PHOTO_SIDE_PX, LONGEST_PHOTO_SIDE_PX))
        return photo.convert("RGB")


def _measure(photo: Image.Image) -> float:
    """Mean bytes per pixel of crops like those that we cut."""
    choice = random.Random(0)  # noqa: S311
    crops = [_crop(photo, 160_000, choice) for _ in range(24)]
    return sum(map(len, crops)) / len(crops) / 160_000


def _crop(photo: Image.Image, area_px: float, choice: random.Random, turn: int = 0) -> bytes:
    aspect = choice.choice((4 / 3, 3 / 4, 1.0, 3 / 2))
    width = _side(math.sqrt(area_px * aspect), photo.width)
    height = _side(area_px / width, photo.height)
    left, top = choice.randint(0, photo.width - width), choice.randint(0, photo.height - height)
    crop = photo.crop((left, top, left + width, top + height))
    if choice.random() < 0.5:
        crop = ImageOps.mirror(crop)
    gain = choice.uniform(0.8, 1.2)
    crop = crop.point([min(round(value * gain), 255) for value in range(256)] * 3)
    if turn:
        bands = crop.split()
        crop = Image.merge("RGB", bands[turn:] + bands[:turn])
    out = io.BytesIO()
    crop.save(out, "JPEG", quality=QUALITY)
    return out.getvalue()


def _side(length_px: float, limit_px: int) -> int:
    return min(max(round(length_px), SMALLEST_SIDE_PX), limit_px)
