"""The wheel of `dist`, where this commit's is there: installed without a compiler, and used once.

All supported Pythons, and a local backend with a job: `make test-release`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import first_steps
import pytest
from clean_install import CHECKOUT, built_wheel, clean_install, commit_of, python_of

from headrace.provenance import checked_out_commit
from headrace.testing.s3_server import S3Server


def test_the_wheel_installs_without_a_compiler_and_a_bucket_is_read(server: S3Server, tmp_path: Path) -> None:
    wheel = built_wheel()
    if wheel is None:
        pytest.skip("dist has no wheel: make release")
    if commit_of(wheel) != (checked_out_commit(CHECKOUT) or "").partition("-")[0]:
        pytest.skip("the wheel in dist is of another commit: make release")
    python = python_of(f"{sys.version_info.major}.{sys.version_info.minor}")
    assert python is not None
    here = clean_install(python, wheel, tmp_path / "i")
    assert here.finds("cargo") is None
    assert here.finds("cc") is None
    here.variables.update(first_steps.filled(server))
    assert commit_of(wheel)[:12] in here.run("headrace", "--version").stdout
    first_steps.mount_read_and_unmount(here)
    first_steps.read_by_the_sdk(here)
