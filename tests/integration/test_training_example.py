"""The training example: its launcher with a real mpirun, and real trainings with Horovod on real records."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
EXAMPLE = CHECKOUT / "examples" / "02-resnet50-horovod"
HOROVOD = CHECKOUT / ".cache" / "horovod" / "bin" / "python"
MAKE = """
from pathlib import Path
import sys
from experiment.data import DataPlan
from experiment.making import make_data
plan = DataPlan(images=320, shards=4, validation_images=96, validation_shards=2, mean_bytes=14_000)
if __name__ == "__main__":
    print(make_data(plan, Path(sys.argv[1]), report=lambda done, of: None).folder)
"""

pytestmark = pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs Debian's openmpi-bin")
needs_horovod = pytest.mark.skipif(not HOROVOD.exists(), reason="needs Horovod: `make horovod`")


def launch(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OMPI_")}
    return subprocess.run(
        [EXAMPLE / "launch-example.sh", *words],
        env={**inherited, "HOROVOD_PYTHON": str(HOROVOD), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def result_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("result: ")]
    return dict(json.loads(line.removeprefix("result: ")))


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with small photographs in ImageNet's records."""
    folder = tmp_path_factory.mktemp("records")
    script = folder / "make.py"
    script.write_text(MAKE)
    sources = os.pathsep.join([str(EXAMPLE), str(CHECKOUT / "src")])
    done = subprocess.run(
        [sys.executable, script, folder],
        env={**os.environ, "PYTHONPATH": sources},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return Path(done.stdout.strip())


@pytest.fixture
def teller(tmp_path: Path) -> Path:
    """In the place of Python: each rank tells who it is, and what reached it."""
    program = tmp_path / "teller"
    program.write_text('#!/bin/sh\nprintf "%s|%s|%s\\n" "$OMPI_COMM_WORLD_RANK" "$DATA_DIR" "$*"\n')
    program.chmod(0o755)
    return program


def told(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    assert done.returncode == 0, done.stderr
    return sorted(line.split("|") for line in done.stdout.splitlines() if "|" in line)


def test_each_accelerator_has_a_rank_and_its_variables(teller: Path) -> None:
    ranks = told(launch("1", "3", HOROVOD_PYTHON=str(teller), DATA_DIR='/data/a "b", c'))
    assert [rank for rank, _, _ in ranks] == ["0", "1", "2"]
    assert {data for _, data, _ in ranks} == {'/data/a "b", c'}
    assert {words.partition("train.py ")[2] for _, _, words in ranks} == {"--accelerators-per-rank 1"}


def test_ranks_may_share_emulated_accelerators_and_flags_are_handed_on(teller: Path) -> None:
    variables = {"HOROVOD_PYTHON": str(teller), "accelerator": "emulated-v100", "ranks_per_machine": "1"}
    done = launch("2", "8", "--seed", "5", **variables)
    assert [words.partition("train.py ")[2] for _, _, words in told(done)] == [
        "--accelerators-per-rank 8 --seed 5"
    ] * 2
    assert "1 rank(s) on each machine drive its 8 accelerators" in done.stdout


def test_accelerators_that_ranks_cannot_share_are_refused(teller: Path) -> None:
    done = launch("1", "8", HOROVOD_PYTHON=str(teller), ranks_per_machine="3")
    assert done.returncode == 2
    assert "cannot be shared" in done.stderr


@needs_horovod
def test_a_network_really_learns_on_two_ranks(records: Path) -> None:
    """Half a minute: the only proof that gradients, records and labels are right together."""
    variables = {"DATA_DIR": str(records), "num_batch": "60", "accelerator": "cpu", "eval_images": "96"}
    result = result_of(launch("1", "2", **variables))
    assert (result["ranks"], result["steps"], result["eval_images"]) == (2, 60, 96)
    # Five of the 36 classes by chance are 0.14; a network that learns nothing of 1001 has less.
    assert result["accuracy_5"] > 0.5


@needs_horovod
def test_emulated_steps_take_the_time_of_the_table_and_all_bytes_are_read(records: Path) -> None:
    variables = {
        "DATA_DIR": str(records),
        "num_batch": "10",
        "accelerator": "emulated-v100",
        "slowdown": "24",
        "batch_size": "8",
        "ranks_per_machine": "1",
        "datasets_num_private_threads": "4",
    }
    done = launch("1", "4", **variables)
    result = result_of(done)
    assert "EMULATED" in done.stdout
    assert result["images"] == 10 * 4 * 8
    # Each image once: as many as there are.
    payload = sum(path.stat().st_size for path in records.glob("train-*")) - 16 * 320
    assert result["bytes"] == payload
    assert result["time_s"] >= result["compute_s"] == pytest.approx(10 * 8 / (21329 / 32) * 24)


@needs_horovod
def test_a_folder_without_records_is_told(tmp_path: Path) -> None:
    done = launch("1", "1", DATA_DIR=str(tmp_path))
    assert done.returncode != 0
    assert "no files train-XXXXX-of-YYYYY" in done.stderr
