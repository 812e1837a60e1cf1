"""What a process takes without a word: a share of what its control group, its machine and its limits allow."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from headrace.settings.allowances import (
    descriptors_here,
    group_memory_bytes,
    memory_bytes_here,
    usual_descriptors,
    usual_listing_bytes,
    usual_memory_bytes,
)

MIB, GIB = 1 << 20, 1 << 30
NO_LIMIT_V1 = "9223372036854771712"


@pytest.mark.parametrize(
    ("group", "machine", "expected"),
    [
        (None, 64 * GIB, 512 * MIB),
        (None, 2 * GIB, 256 * MIB),
        (GIB, 64 * GIB, 256 * MIB),
        (16 * GIB, 64 * GIB, GIB),
        (16 * GIB, 4 * GIB, 512 * MIB),
        (100 * MIB, 64 * GIB, 64 * MIB),
        (None, 100 * MIB, 64 * MIB),
    ],
)
def test_memory_is_a_share_within_bounds(group: int | None, machine: int, expected: int) -> None:
    assert usual_memory_bytes(group, machine) == expected


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [(1024, 768), (20_000, 15_000), (1 << 20, 65_536), (resource.RLIM_INFINITY, 65_536), (10, 64)],
)
def test_descriptors_are_a_share_within_bounds(allowed: int, expected: int) -> None:
    assert usual_descriptors(allowed) == expected


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        ("0::/user.slice/job\n", {"user.slice/job/memory.max": "max"}, None),
        ("0::/user.slice/job\n", {"user.slice/job/memory.max": "300", "user.slice/memory.max": "200"}, 200),
        # A container sees its own group as the root, by a path that may be another's.
        ("0::/../elsewhere\n", {"memory.max": "100"}, 100),
        ("0::/\n", {"memory.max": "100"}, 100),
        ("5:cpu:/a\n4:memory:/a/b\n", {"memory/a/b/memory.limit_in_bytes": "400", "memory.max": "1"}, 400),
        ("4:memory,hugetlb:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": NO_LIMIT_V1}, None),
        ("4:memory:/docker/x\n", {"memory/memory.limit_in_bytes": "500"}, 500),
        ("nonsense\n", {"memory.max": "100"}, None),
        ("0::/\n", {"memory.max": "\xff"}, None),
    ],
)
def test_the_narrowest_group_counts(
    tmp_path: Path, groups: str, limits: dict[str, str], expected: int | None
) -> None:
    files = {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{name}": text for name, text in limits.items()}}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="latin-1")
    assert group_memory_bytes(tmp_path) == expected


def test_where_nothing_can_be_read_there_is_no_limit(tmp_path: Path) -> None:
    assert group_memory_bytes(tmp_path) is None


def test_this_process_has_allowances() -> None:
    assert 64 * MIB <= memory_bytes_here() <= GIB
    assert 64 <= descriptors_here() <= 65_536


@pytest.mark.parametrize(
    ("group", "machine", "expected"),
    [(None, 64 * GIB, 48 * GIB), (GIB, 64 * GIB, 768 * MIB), (16 * GIB, 4 * GIB, 3 * GIB)],
)
def test_a_list_of_files_may_take_most_of_what_its_process_may(
    group: int | None, machine: int, expected: int
) -> None:
    assert usual_listing_bytes(group, machine) == expected
