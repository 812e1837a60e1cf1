"""The files of `dist` beside one another: what one says of another is so, and nothing is there that no list names."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tarfile
from pathlib import Path

import pytest
from clean_install import DIST, built_wheel, commit_of

from headrace.testing.kubernetes.images import image_identity, json_of

IMAGES = ("operator", "engine")


@pytest.fixture(scope="module", autouse=True)
def _release() -> None:
    assert (DIST / "SHA256SUMS").is_file(), "dist has no release: make release"


def _files() -> set[str]:
    return {each.name for each in DIST.iterdir() if not each.name.startswith("SHA256SUMS")}


def _archive(name: str) -> Path:
    (found,) = DIST.glob(f"headrace-{name}-*.oci.tar")
    return found


def _bill(part: str) -> dict:
    return json.loads((DIST / f"{part}.cdx.json").read_text())


def test_every_file_is_listed_and_is_what_the_list_says() -> None:
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"],
        cwd=DIST,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    listed = {line.split()[1] for line in (DIST / "SHA256SUMS").read_text().splitlines()}
    assert listed == _files()


def test_every_part_has_a_bill_of_that_very_file() -> None:
    parts = {name for name in _files() if not name.endswith(".cdx.json")}
    assert {f"{name}.cdx.json" for name in parts} | parts == _files()
    for part in parts:
        bill = _bill(part)
        (digest,) = bill["metadata"]["component"]["hashes"]
        assert digest["content"] == hashlib.sha256((DIST / part).read_bytes()).hexdigest()
        assert bill["bomFormat"] == "CycloneDX"
        assert bill["components"]


def test_bills_name_what_is_inside() -> None:
    def kinds(part: str) -> set[str]:
        return {each["purl"].split("/")[0] for each in _bill(part)["components"]}

    wheel = built_wheel()
    assert wheel is not None
    assert kinds(wheel.name) == {"pkg:cargo"}
    assert kinds(_archive("operator").name) == {"pkg:deb", "pkg:pypi"}
    assert kinds(_archive("engine").name) == {"pkg:deb", "pkg:pypi", "pkg:cargo"}


def test_the_chart_installs_the_images_that_lie_beside_it() -> None:
    (package,) = DIST.glob("headrace-*.tgz")
    with tarfile.open(package) as chart:
        values = chart.extractfile("headrace/values.yaml").read().decode()
    digests = re.findall(r'tag: "[^"@]*@(sha256:[0-9a-f]{64})"', values)
    assert digests == [image_identity(_archive(name))[1] for name in IMAGES]


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_is_of_the_commit_of_the_wheel(name: str) -> None:
    wheel = built_wheel()
    assert wheel is not None
    with tarfile.open(_archive(name)) as archive:
        (entry,) = json_of(archive, "index.json")["manifests"]
        manifest = json_of(archive, f"blobs/sha256/{entry['digest'].partition(':')[2]}")
        config = json_of(archive, f"blobs/sha256/{manifest['config']['digest'].partition(':')[2]}")
    assert config["config"]["Labels"]["org.opencontainers.image.revision"] == commit_of(wheel)


def test_the_sources_have_all_that_a_build_looks_for(tmp_path: Path) -> None:
    (sdist,) = DIST.glob("headrace-*.tar.gz")
    subprocess.run(["tar", "--extract", "--file", sdist, "--directory", tmp_path], check=True)
    (folder,) = tmp_path.iterdir()
    for name in ("Cargo.lock", "src/headrace/COMMIT", "packaging/data/share/man/man1/headrace.1"):
        assert (folder / name).is_file(), name
    # All members of the workspace, and every crate by the lock file that came along.
    done = subprocess.run(
        [
            "cargo",
            "metadata",
            "--locked",
            "--format-version",
            "1",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-1000:]
    assert {"headrace-engine", "headrace-python"} <= {
        each["name"] for each in json.loads(done.stdout)["packages"]
    }
