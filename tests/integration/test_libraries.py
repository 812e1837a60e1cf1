"""The short part of `make test-libraries`: what docs/libraries.md and docs/writing-beside-data.md say of packages that
are here anyway.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from beside_data import CASES
from libraries_page import CHECKS, make_data, run_sample

from .survival import shell_without_server


def test_samples_of_the_page_read_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = shell_without_server(tmp_path / "home")
    monkeypatch.setenv("HEADRACE_RUNTIME_DIR", str(tmp_path / "home" / "run"))
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path / "state"))
    source = tmp_path / "imagenet"
    make_data(source)
    beside = [CASES["SQLite, WAL"], CASES["numpy.memmap"]]
    for case in beside:
        case.make(source)
    with shell.mounted(str(source), tmp_path / "mnt", cache=tmp_path / "cache") as mount:
        places = {
            "/mnt/imagenet": mount,
            "s3://bucket/imagenet": source,
            "/ssd/headrace": tmp_path / "other-cache",
        }
        for title in ("fsspec", "NumPy", "safetensors"):
            assert CHECKS[title](run_sample(title, places)), title
        for case in beside:
            with pytest.raises(Exception, match=case.words):
                case.refused(mount, tmp_path)
            assert case.remedy(mount, tmp_path) == case.expected
