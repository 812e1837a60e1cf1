"""The measurements of model weights: what is made, who loads it how, and what a failure says."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from benchmarks.model import make_model, shard_paths
from benchmarks.native import LoopError
from benchmarks.settings import QUICK
from benchmarks.workloads import weights
from benchmarks.workloads.weights import Rank, ThisMachine, load_seconds

pytestmark = pytest.mark.skipif(weights.missing() is not None, reason=str(weights.missing()))

SMALL = dataclasses.replace(QUICK, model_hidden=64, model_layers_of_a_shard=2)


@pytest.fixture
def model(tmp_path: Path) -> list[Path]:
    size_bytes = make_model(tmp_path / "bucket", SMALL)
    assert size_bytes == pytest.approx(SMALL.model_bytes(), rel=0.05)
    return shard_paths(tmp_path / "bucket", SMALL)


def copied_bytes(folder: Path) -> list[int]:
    return [weights.read_report(log)["copied_bytes"] for log in sorted(folder.glob("*.log"))]


@pytest.mark.parametrize("loader", ["load", "torch-mmap"])
def test_each_loader_copies_every_tensor(model: list[Path], tmp_path: Path, loader: str) -> None:
    rank = Rank(ThisMachine(tmp_path / "logs"), model)
    begun: list[bool] = []
    assert load_seconds(loader, [rank], tmp_path, before=lambda: begun.append(True), limit_s=60) > 0
    (copied,) = copied_bytes(tmp_path / "logs")
    headers = 8 * len(model) + 4096
    assert sum(path.stat().st_size for path in model) - headers < copied
    assert begun == [True]


def test_ranks_share_the_matrices(model: list[Path], tmp_path: Path) -> None:
    ranks = [Rank(ThisMachine(tmp_path / "logs"), model, rank, 2) for rank in range(2)]
    load_seconds("safe-open", ranks, tmp_path, before=lambda: None, limit_s=60)
    first, second = copied_bytes(tmp_path / "logs")
    # Vectors are kept by both.
    assert first == second
    assert first + second == pytest.approx(SMALL.model_bytes(), rel=0.05)


def test_a_loader_that_fails_is_told_with_its_words(tmp_path: Path) -> None:
    rank = Rank(ThisMachine(tmp_path / "logs"), [tmp_path / "no-such.safetensors"])
    with pytest.raises(LoopError, match=r"no-such\.safetensors"):
        load_seconds("safe-open", [rank], tmp_path, before=lambda: None, limit_s=60)
