"""The chart as a package whose images are set by digest: it installs what was built with it, and nothing else."""

from __future__ import annotations

import gzip
import io
import re
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.release.commands import ReleaseError, output_of
from tools.release.images import Image
from tools.release.sources import Sources


def build_chart(sources: Sources, images: Sequence[Image], prefix: str, helm: Path, to: Path) -> Path:
    """The package in the folder `to`."""
    with TemporaryDirectory(prefix="headrace-chart-") as made:
        chart = Path(made) / "headrace"
        shutil.copytree(sources.folder / "deploy" / "chart", chart)
        values = chart / "values.yaml"
        values.write_text(with_images(values.read_text(), images, prefix, sources.version))
        output_of([helm, "package", str(chart), "--destination", made], folder=Path(made))
        package = to / f"headrace-{sources.version}.tgz"
        package.write_bytes(without_times((Path(made) / package.name).read_bytes(), sources.committed_s))
    _check(package, images, helm)
    return package


def with_images(values: str, images: Sequence[Image], prefix: str, version: str) -> str:
    """The chart's values with these images, comments and all else as they are."""
    for image in images:
        pattern = rf'(\n  {image.name}:.*\n    repository: )headrace/{image.name}(\n    tag: )""'
        set_by_digest = rf'\g<1>{prefix}/{image.name}\g<2>"{version}@{image.digest}"'
        values, found = re.subn(pattern, set_by_digest, values)
        if found != 1:
            raise ReleaseError(
                f"the chart's values do not have the image {image.name} where it is looked for"
            )
    return values


def without_times(package: bytes, changed_s: int) -> bytes:
    """The same files as a package that does not tell when, or by whom, it was made: helm notes both."""
    written = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(package)) as files,
        gzip.GzipFile(filename="", mode="wb", fileobj=written, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for entry in sorted(files.getmembers(), key=lambda each: each.name):
            plain = tarfile.TarInfo(entry.name)
            plain.size, plain.mode, plain.mtime = entry.size, 0o644, changed_s
            archive.addfile(plain, files.extractfile(entry))
    return written.getvalue()


def _check(package: Path, images: Sequence[Image], helm: Path) -> None:
    """Raises `ReleaseError` for a package that installs another image than those of the release."""
    command = [
        helm,
        "template",
        "headrace",
        str(package),
        "--namespace",
        "headrace-system",
        "--kube-version",
        "1.34.0",
    ]
    rendered = output_of(command, folder=package.parent)
    named = set(re.findall(r'^\s*(?:- )?image: "?([^"\s]+)"?$', rendered, re.M))
    known = {image.digest for image in images}
    if not named or {name.partition("@")[2] for name in named} != known:
        raise ReleaseError(f"{package.name} installs other images than those of the release: {sorted(named)}")
