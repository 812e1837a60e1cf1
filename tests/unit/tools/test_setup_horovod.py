"""Which Python the demo's TensorFlow is installed for: the machine's, or another one that is there already."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "tools" / "setup_horovod.sh"
NEWER = 'case $1 in --version) echo "Python 3.13.1" ;; *) exit 1 ;; esac'
FITS = "exit 0"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """All that the script finds: a machine whose python3 is newer than TensorFlow 2.13."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("dirname", "sh"):
        (folder / name).symlink_to(shutil.which(name) or "")
    for name in ("mpicxx", "mpirun", "cmake"):
        _program(folder / name, FITS)
    _program(folder / "python3", NEWER)
    return folder


def _program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def check(programs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, "--check", *words], env={"PATH": str(programs)}, capture_output=True, text=True, check=False
    )


def test_a_machine_without_python_3_11_is_told_what_to_install(programs: Path) -> None:
    done = check(programs)
    assert done.returncode == 1
    assert "needs Python 3.11 with its module venv; python3 is Python 3.13.1" in done.stderr
    assert "make PYTHON=/path/to/python3.11 demo" in done.stderr


def test_the_python_that_is_named_is_taken_if_it_fits(programs: Path, tmp_path: Path) -> None:
    done = check(programs, str(_program(tmp_path / "mine", FITS)))
    assert (done.returncode, done.stderr) == (0, "")


def test_another_one_that_is_at_hand_is_taken_instead_of_a_newer_one(programs: Path) -> None:
    _program(programs / "python3.11", FITS)
    done = check(programs)
    assert done.returncode == 0
    assert done.stderr == "setup: python3.11 has the TensorFlow of Horovod, which is not for python3\n"


def test_one_that_uv_has_is_taken_and_none_is_downloaded(programs: Path, tmp_path: Path) -> None:
    kept = _program(tmp_path / "kept", FITS)
    asked = f'[ "$*" = "python find 3.11" ] && [ "$UV_PYTHON_DOWNLOADS" = never ] && echo {kept}'
    _program(programs / "uv", asked)
    done = check(programs)
    assert done.returncode == 0
    assert done.stderr.startswith(f"setup: {kept} has the TensorFlow")
