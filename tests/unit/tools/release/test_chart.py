"""The chart of a release: its images are those that were built with it, and its bytes do not tell of when."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
import yaml
from tools.release.chart import with_images, without_times
from tools.release.commands import ReleaseError
from tools.release.images import Image

VALUES = (Path(__file__).parents[4] / "deploy" / "chart" / "values.yaml").read_text()
IMAGES = [
    Image("operator", Path("o"), f"sha256:{'a' * 64}"),
    Image("engine", Path("e"), f"sha256:{'b' * 64}"),
]


def test_the_images_of_the_chart_are_set_by_digest_and_nothing_else_changes() -> None:
    values = with_images(VALUES, IMAGES, "registry.example.com:5000/team", "1.2.3")
    before, after = yaml.safe_load(VALUES), yaml.safe_load(values)
    for image in IMAGES:
        found = after["image"][image.name]
        assert found["repository"] == f"registry.example.com:5000/team/{image.name}"
        assert found["tag"] == f"1.2.3@{image.digest}"
        after["image"][image.name] = before["image"][image.name]
    assert after == before
    assert len(values.splitlines()) == len(VALUES.splitlines())


def test_values_without_an_image_are_refused() -> None:
    with pytest.raises(ReleaseError, match="operator"):
        with_images("image: {}\n", IMAGES, "headrace", "1.2.3")


def _packed(names: list[str], changed_s: int, owner: str) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.uname = len(name), changed_s, owner
            archive.addfile(entry, io.BytesIO(name.encode()))
    return written.getvalue()


def test_a_package_is_the_same_whenever_and_by_whom_it_was_made() -> None:
    one = without_times(_packed(["headrace/a", "headrace/b"], 1_700_000_001, "somebody"), 1_600_000_000)
    two = without_times(_packed(["headrace/b", "headrace/a"], 1_700_000_099, "else"), 1_600_000_000)
    assert one == two
    with tarfile.open(fileobj=io.BytesIO(one)) as archive:
        assert archive.getnames() == ["headrace/a", "headrace/b"]
        assert archive.extractfile("headrace/b").read() == b"headrace/b"
        assert {entry.mtime for entry in archive} == {1_600_000_000}
