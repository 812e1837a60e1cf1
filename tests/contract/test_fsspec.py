"""fsspec's own tests of reading, over the real engine."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import fsspec.tests.abstract as abstract
import pytest

from headrace.client.filesystem import HeadraceFileSystem


class WritesAtOrigin(HeadraceFileSystem):
    """For the one test of fsspec that writes its scenario itself: what it writes appears at the origin."""

    def __init__(self, root: Path, **given: Any) -> None:
        super().__init__(str(root), **given)
        self.root = root

    def close(self) -> None:
        self.dataset.close()

    def mkdir(self, path: str, **_: Any) -> None:
        (self.root / path).mkdir(parents=True)
        self.dataset.refresh()

    def touch(self, path: str, **_: Any) -> None:
        (self.root / path).touch()
        self.dataset.refresh()


class Fixtures(abstract.AbstractFixtures):
    """fsspec writes its scenarios through the file system; ours appear at the origin, and a new snapshot shows them."""

    @pytest.fixture
    def fs(self, data: Path, tmp_path: Path) -> Iterator[HeadraceFileSystem]:
        with contextlib.closing(
            WritesAtOrigin(data, cache=f"{tmp_path}/cache:1Gi", skip_instance_cache=True)
        ) as fs:
            yield fs

    @pytest.fixture
    def fs_path(self) -> str:
        return "scenarios"

    def _at_origin(self, fs: HeadraceFileSystem, data: Path, scenario: Any) -> Iterator[str]:
        local = fsspec.filesystem("file", auto_mkdir=True)
        scenario(local, self.local_join_paths, str(data / "scenarios"))
        fs.dataset.refresh()
        yield "scenarios/source"
        shutil.rmtree(data / "scenarios")

    @staticmethod
    def local_join_paths(*parts: str) -> str:
        return "/".join(parts)

    @pytest.fixture
    def fs_bulk_operations_scenario_0(self, fs: HeadraceFileSystem, data: Path) -> Iterator[str]:
        yield from self._at_origin(fs, data, self._bulk_operations_scenario_0)

    @pytest.fixture
    def fs_glob_edge_cases_files(self, fs: HeadraceFileSystem, data: Path) -> Iterator[str]:
        yield from self._at_origin(fs, data, self._glob_edge_cases_files)

    @pytest.fixture
    def fs_dir_and_file_with_same_name_prefix(self, fs: HeadraceFileSystem, data: Path) -> Iterator[str]:
        yield from self._at_origin(fs, data, self._dir_and_file_with_same_name_prefix)

    @pytest.fixture
    def fs_10_files_with_hashed_names(self, fs: HeadraceFileSystem, data: Path) -> Iterator[str]:
        yield from self._at_origin(fs, data, self._10_files_with_hashed_names)

    @pytest.fixture
    def local_fs(self) -> Any:
        return fsspec.filesystem("file", auto_mkdir=True)

    @pytest.fixture
    def local_join(self) -> Any:
        return os.path.join

    @pytest.fixture
    def local_path(self, tmp_path: Path) -> str:
        (tmp_path / "local").mkdir()
        return str(tmp_path / "local")


class TestGet(Fixtures, abstract.AbstractGetTests):
    """fsspec's own tests of reading."""
