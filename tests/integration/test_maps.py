"""A map of a file stays right whatever becomes of the cache, though its descriptor is long closed."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lone_maps import Maps

from .harness import Shell, mode_words
from .survival import kill_process, wait_until_restarted

MODES = ["passthrough", "elide", "classic", "view"]
SIZE = 8 << 20
# Each file is a quarter of the cache: not so small that it is evicted as a whole anyway.
QUOTA = "32Mi"
# What was held when the store looked at it is left alone for ten seconds: ten times that.
DEADLINE_S = 120.0


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for name in ["a", *(f"b{number}" for number in range(8))]:
        (folder / name).write_bytes(random.Random(name).randbytes(SIZE))
    return folder


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Without a server: the origin is a folder."""
    home = tmp_path / "home"
    (home / "run").mkdir(parents=True, mode=0o700)
    return Shell(home, {"HEADRACE_RUNTIME_DIR": str(home / "run")})


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    mode_words(request.param)
    return request.param


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def mount(shell: Shell, source: Path, tmp_path: Path, mode: str, cache: Path) -> Iterator[Path]:
    words = [*mode_words(mode), "--block-size", "1Mi", "--eviction", "lru"]
    with shell.mounted(str(source), tmp_path / "mnt", *words, cache=cache, quota=QUOTA) as mountpoint:
        yield mountpoint


@pytest.fixture
def maps(mount: Path) -> Iterator[Maps]:
    """Its maps end before the mount does."""
    kept = Maps()
    yield kept
    kept.close()


def read_until_whole(path: Path, cache: Path) -> Path:
    """Reads the first file of a mount until all of it is in the cache; its data file."""
    found: list[Path] = []

    def is_whole() -> bool:
        path.read_bytes()
        # A read is not kept up by the disk that takes what it has brought.
        found[:] = (cache / "data").glob("*/*")
        return [taken(data) >= SIZE for data in found] == [True]

    eventually(is_whole, "the file becomes whole")
    path.read_bytes()
    return found[0]


def map_cache_file(shell: Shell, mount: Path, maps: Maps, expected: bytes, data: Path) -> None:
    """Adds maps of the first file that are the kernel's own of its data file, which nothing but them holds then."""

    def is_mapped() -> bool:
        before = passthrough_opens(shell, mount)
        # An open is of the same kind as those that are not given back yet.
        with (mount / "a").open("rb"):
            passed = passthrough_opens(shell, mount) > before
            if passed:
                maps.add(mount / "a", expected)
        return passed

    eventually(is_mapped, "the file is passed through")
    # The kernel gives a file back some time after it was closed; what the store saw held it leaves alone for 10 s.
    eventually(lambda: not is_locked(data), "the mount gives the file back")


def passthrough_opens(shell: Shell, mount: Path) -> int:
    return int(shell.status(mount)["reads"]["passthrough_opens"])


def is_locked(path: Path) -> bool:
    number = str(path.stat().st_ino)
    locks = Path("/proc/locks").read_text().splitlines()
    return any(line.split()[-3].rpartition(":")[2] == number for line in locks)


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def taken(data: Path) -> int:
    try:
        return data.stat().st_blocks * 512
    except FileNotFoundError:
        return 0


def press_out(mount: Path, data: Path) -> None:
    """Reads other files until some of this data file has given way."""
    deadline = time.monotonic() + DEADLINE_S
    others = itertools.cycle(sorted(mount.glob("b*")))
    while taken(data) >= SIZE:
        assert time.monotonic() < deadline, "the file never gave way"
        next(others).read_bytes()


def test_eviction_changes_no_byte_under_a_map(
    shell: Shell, mount: Path, mode: str, source: Path, cache: Path, maps: Maps
) -> None:
    data = read_until_whole(mount / "a", cache)
    if mode == "passthrough":
        map_cache_file(shell, mount, maps, (source / "a").read_bytes(), data)
    else:
        maps.add(mount / "a", (source / "a").read_bytes())
    press_out(mount, data)
    maps.must_be_right()
    assert (mount / "a").read_bytes() == (source / "a").read_bytes()
    maps.must_be_right()


@pytest.mark.parametrize("mode", ["passthrough"], indirect=True)
def test_a_mount_process_that_follows_a_killed_one_changes_no_byte_under_a_map(
    shell: Shell, mount: Path, source: Path, cache: Path, maps: Maps
) -> None:
    data = read_until_whole(mount / "a", cache)
    map_cache_file(shell, mount, maps, (source / "a").read_bytes(), data)
    beyond = kill_process(shell, mount)
    wait_until_restarted(shell, mount, beyond=beyond)
    press_out(mount, data)
    maps.must_be_right()


@pytest.mark.parametrize("mode", ["passthrough"], indirect=True)
def test_verification_takes_nothing_from_a_map_and_heals_it(
    shell: Shell, mount: Path, source: Path, cache: Path, maps: Maps
) -> None:
    data = read_until_whole(mount / "a", cache)
    map_cache_file(shell, mount, maps, (source / "a").read_bytes(), data)
    damage(data, 5 << 20)
    shell.run("verify", mount)
    assert maps.wrong_pages() == [1, 1], "the damage, and no more"
    assert (mount / "a").read_bytes() == (source / "a").read_bytes()
    maps.must_be_right()


def damage(data: Path, offset: int) -> None:
    with data.open("r+b", buffering=0) as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0xFF]))


@pytest.mark.parametrize("mode", ["passthrough"], indirect=True)
def test_a_map_shows_its_version_after_refreshes(
    shell: Shell, mount: Path, source: Path, cache: Path, maps: Maps
) -> None:
    data = read_until_whole(mount / "a", cache)
    map_cache_file(shell, mount, maps, (source / "a").read_bytes(), data)
    for number in range(6):
        new = random.Random(number).randbytes(SIZE)
        (source / "a").write_bytes(new)
        shell.must("refresh", mount)
        assert (mount / "a").read_bytes() == new
    press_out(mount, data)
    maps.must_be_right()


@pytest.mark.parametrize("mode", ["passthrough"], indirect=True)
def test_moves_between_levels_change_no_byte_under_a_map(
    shell: Shell, source: Path, tmp_path: Path, mode: str
) -> None:
    fast, slow = tmp_path / "fast", tmp_path / "slow"
    words = [*mode_words(mode), "--block-size", "1Mi", "--eviction", "lru", "--cache", f"{slow}:128Mi:HDD"]
    kept = Maps()
    # Two files fill the fast level beyond its high mark, and the older one gives way.
    with shell.mounted(str(source), tmp_path / "mnt", *words, cache=fast, quota="16Mi") as mount:
        try:
            data = read_until_whole(mount / "a", fast)
            map_cache_file(shell, mount, kept, (source / "a").read_bytes(), data)
            press_out(mount, data)
            for path in sorted(mount.iterdir()):
                path.read_bytes()
                kept.add(path, (source / path.name).read_bytes())
            kept.must_be_right()
        finally:
            kept.close()
