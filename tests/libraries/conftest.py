"""The dataset of docs/libraries.md, mounted as the page says, for packages that no other environment has."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from beside_data import make_all
from libraries_page import make_data

COMMAND = (sys.executable, "-m", "headrace.cli.main")


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Where the dataset `imagenet` is mounted, where it comes from, and a cache, by what the page calls them."""
    base = tmp_path_factory.mktemp("libraries")
    make_data(base / "imagenet")
    make_all(base / "imagenet")
    for name in ("run", "state", "hf"):
        (base / name).mkdir(mode=0o700)
    os.environ |= {
        "HEADRACE_RUNTIME_DIR": str(base / "run"),
        "HEADRACE_STATE_DIR": str(base / "state"),
        "HEADRACE_CONFIG": "",
        "HF_HOME": str(base / "hf"),
        "HF_HUB_OFFLINE": "1",
    }
    mountpoint = base / "mnt"
    mountpoint.mkdir()
    cache = ("--cache", f"{base}/cache:1Gi")
    subprocess.run([*COMMAND, "mount", base / "imagenet", mountpoint, *cache], check=True)
    yield {
        "/mnt/imagenet": mountpoint,
        "s3://bucket/imagenet": base / "imagenet",
        "/ssd/headrace": base / "other-cache",
    }
    subprocess.run([*COMMAND, "unmount", "--force", mountpoint], check=True)
