"""What stands in the images of the test cluster runs there, with nothing of this machine but its kernel."""

import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.kubernetes.build_images import Images, build_images

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,  # builds images: minutes the first time, seconds later
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: debootstrap and chroot"),
]


@pytest.fixture(scope="module")
def images() -> Images:
    return build_images()


@pytest.fixture(scope="module")
def roots(images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    folder = tmp_path_factory.mktemp("roots")
    yield {tar.stem.removeprefix("headrace-"): _unpacked(tar, folder / tar.stem) for tar in images}
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def _unpacked(image: Path, to: Path) -> Path:
    with tarfile.open(image) as archive:
        manifest = json.load(archive.extractfile("manifest.json"))[0]
        for layer in manifest["Layers"]:
            with tarfile.open(fileobj=archive.extractfile(layer)) as content:
                content.extractall(to, filter="fully_trusted")
    return to


def _inside(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        ["chroot", str(root), *command], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("image", ["operator", "engine"])
def test_the_command_tells_its_verbs(roots: dict[str, Path], image: str) -> None:
    done = _inside(roots[image], "headrace", "--help")
    assert done.returncode == 0, done.stderr
    assert "master" in done.stdout and "mount" in done.stdout


def test_the_engine_image_loads_the_native_module(roots: dict[str, Path]) -> None:
    done = _inside(roots["engine"], "headrace", "version")
    assert done.returncode == 0, done.stderr
    assert "not built" not in done.stdout
    imported = _inside(roots["engine"], "python3", "-c", "import headrace.engine.handles, headrace.csi")
    assert imported.returncode == 0, imported.stderr


def test_the_operator_image_has_no_native_module_and_does_not_miss_it(roots: dict[str, Path]) -> None:
    assert not list((roots["operator"] / "usr/local/lib").rglob("headrace/*.so"))
    modules = "import headrace.operator, headrace.webhook, headrace.kube, headrace.plan, kubernetes_asyncio"
    done = _inside(roots["operator"], "python3", "-W", "error", "-c", modules)
    assert done.returncode == 0, done.stderr
    assert "not built" in _inside(roots["operator"], "headrace", "version").stdout


def test_the_tools_of_tests_hold_no_headrace(roots: dict[str, Path]) -> None:
    assert _inside(roots["test-tools"], "python3", "-c", "print('here')").stdout == "here\n"
    assert _inside(roots["test-tools"], "python3", "-c", "import headrace").returncode != 0


def test_no_test_server_and_no_byte_code_of_another_place_is_in_an_image(roots: dict[str, Path]) -> None:
    package = next((roots["engine"] / "usr/local/lib").glob("python3*/dist-packages/headrace"))
    assert not (package / "testing").exists()
    code = "import headrace.errors; print(headrace.errors.__file__, headrace.errors.__cached__)"
    said = _inside(roots["engine"], "python3", "-c", code).stdout.split()
    assert all(path.startswith("/usr/local/lib/") for path in said)


def test_images_that_have_not_changed_are_not_written_again(images: Images) -> None:
    before = [tar.stat().st_mtime_ns for tar in images]
    assert [tar.stat().st_mtime_ns for tar in build_images()] == before
