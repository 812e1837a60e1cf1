"""The wheel of `dist` on every supported Python: installed where nothing can be built, and used as on a first day."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import first_steps
import pytest
from clean_install import SUPPORTED, CleanInstall, built_wheel, clean_install, commit_of, python_of

from headrace.exits import ExitCode
from headrace.testing.s3_server import S3Server


@pytest.fixture(scope="module", params=SUPPORTED)
def here(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CleanInstall]:
    wheel, python = built_wheel(), python_of(request.param)
    assert wheel is not None, "dist has no wheel for this machine: make release"
    if python is None:
        pytest.skip(f"no Python {request.param} is on this machine")
    # Short: it holds sockets.
    folder = tmp_path_factory.mktemp(f"python{request.param}")
    with S3Server(folder / "objects", state=folder / "server") as server:
        made = clean_install(python, wheel, folder / "i")
        made.variables.update(first_steps.filled(server))
        yield made


@pytest.mark.parametrize("program", ["cargo", "rustc", "gcc", "cc", "c++", "ld", "as", "make", "maturin"])
def test_nothing_is_there_to_build_with(here: CleanInstall, program: str) -> None:
    assert here.finds(program) is None


def test_the_version_names_the_commit_and_the_engine(here: CleanInstall) -> None:
    wheel = built_wheel()
    assert wheel is not None
    version = wheel.name.split("-")[1]
    expected = f"headrace {version} (commit {commit_of(wheel)[:12]}, engine {version})\n"
    assert here.run("headrace", "--version").stdout == expected


def test_the_engine_is_a_release_build(here: CleanInstall) -> None:
    assert here.python("from headrace import _native; print(_native.is_debug_build())") == "False\n"


def test_manual_pages_are_installed(here: CleanInstall) -> None:
    pages = Path(here.python("import sys; print(sys.prefix)").strip()) / "share" / "man" / "man1"
    assert (pages / "headrace.1").is_file()


def test_a_bucket_is_mounted_read_and_unmounted(here: CleanInstall) -> None:
    first_steps.mount_read_and_unmount(here)


def test_a_bucket_is_read_by_the_sdk(here: CleanInstall) -> None:
    first_steps.read_by_the_sdk(here)


def test_a_job_reads_a_dataset_on_the_local_backend(here: CleanInstall) -> None:
    first_steps.bring_up_and_train(here)


def test_an_extra_is_named_where_it_is_missing_and_brings_what_it_says(here: CleanInstall) -> None:
    done = here.run("headrace", "operator", code=int(ExitCode.UNSUPPORTED))
    assert done.stderr.endswith("hint: pip install 'headrace[kubernetes]'\n")
    done = here.run("python", "-c", "import headrace.client.torch", code=1)
    assert "pip install 'headrace[torch]'" in done.stderr
    here.install(f"{built_wheel()}[kubernetes]")
    for verb in ("operator", "webhook", "jobkeeper", "csi"):
        assert "Usage" in here.run("headrace", verb, "--help").stdout
