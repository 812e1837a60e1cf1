"""Tests run beside each other only where nothing is shared."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]


@pytest.mark.parametrize("runners", ["1", "2"])
def test_a_folder_that_shares_something_is_run_by_one_runner(tmp_path: Path, runners: str) -> None:
    for folder in ("kubernetes", "cluster"):
        place = tmp_path / "tests" / folder
        place.mkdir(parents=True)
        for file in ("test_a.py", "test_b.py"):
            (place / file).write_text(
                "import pytest\n@pytest.mark.parametrize('n', range(5))\ndef test(n): pass\n"
            )
    (tmp_path / "tests" / "conftest.py").write_bytes((TREE / "tests" / "conftest.py").read_bytes())
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    words = ["-m", "pytest", "-v", "-p", "no:cacheprovider", "--numprocesses", runners, "tests"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "20 passed" in done.stdout, done.stdout
    ran = [line for line in done.stdout.splitlines() if "PASSED" in line]
    for folder in ("kubernetes", "cluster"):
        assert len({line.split()[0] for line in ran if f"tests/{folder}/" in line}) == 1
    assert len({line.split()[0] for line in ran}) == int(runners)


def test_each_lane_names_files_that_are_there() -> None:
    files = [path.relative_to(TREE).as_posix() for path in (TREE / "tests").rglob("test_*.py")]
    names = runpy.run_path(str(TREE / "tests" / "conftest.py"))
    for lane, starts in {**names["LANES"], "early": names["EARLY"]}.items():
        for start in starts:
            assert any(file.startswith(start) for file in files), (lane, start)


def test_lanes_begin_first_and_then_what_takes_long() -> None:
    rank_of = runpy.run_path(str(TREE / "tests" / "conftest.py"))["rank_of"]
    order = [
        "tests/kubernetes/test_a.py::test",
        "tests/integration/test_local_users.py::test",
        "tests/cluster/test_faults.py::test",
        "tests/integration/test_any.py::test",
        "tests/unit/roles/test_worker.py::test",
        "tests/unit/api/test_crd.py::test",
    ]
    ranks = [rank_of(nodeid) for nodeid in order]
    assert ranks == sorted(set(ranks))
