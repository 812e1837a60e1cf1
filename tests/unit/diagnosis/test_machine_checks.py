from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.diagnosis import cache_checks, machine_checks
from headrace.diagnosis.cache_facts import CacheFacts, gather
from headrace.diagnosis.findings import Level
from headrace.diagnosis.machine_facts import MachineFacts

FINE = MachineFacts(
    kernel="6.18.2-generic",
    processor="x86_64",
    is_root=True,
    has_sys_admin=True,
    fuse_fault=None,
    fusermount="/usr/bin/fusermount3",
    is_fusermount_privileged=True,
    allows_other=True,
    file_systems=frozenset({"erofs", "fuse"}),
    open_files=1 << 20,
    proxies={},
    python="3.12.1",
    headrace="0.1.0",
    engine="0.1.0",
)
USER = replace(FINE, is_root=False, has_sys_admin=False)


def test_nothing_is_said_against_a_machine_that_has_all() -> None:
    assert {finding.level for finding in machine_checks.check(FINE)} == {Level.GOOD}


@pytest.mark.parametrize(
    ("facts", "check", "level", "words"),
    [
        (replace(FINE, kernel="4.18.0-553.el8"), "kernel", Level.FAULT, "too old"),
        (replace(FINE, kernel="5.3.0"), "kernel", Level.FAULT, "too old"),
        (replace(FINE, kernel="5.4.0"), "kernel", Level.NOTE, "cannot read cache files by itself"),
        (replace(FINE, kernel="6.10.1"), "kernel", Level.GOOD, "6.10.1"),
        (replace(FINE, kernel="odd"), "kernel", Level.NOTE, "no version"),
        (replace(FINE, kernel="6.8.0"), "passthrough", Level.NOTE, "none"),
        (USER, "passthrough", Level.NOTE, "through the mount process"),
        (replace(FINE, kernel="6.14.9"), "view", Level.NOTE, "--mode view"),
        (replace(FINE, file_systems=frozenset({"fuse"})), "view", Level.NOTE, "EROFS"),
        (replace(FINE, fuse_fault="No such file or directory"), "fuse", Level.FAULT, "there is no /dev/fuse"),
        (replace(FINE, fuse_fault="Permission denied"), "fuse", Level.FAULT, "Permission denied"),
        (replace(USER, fusermount=None), "mounting", Level.FAULT, "no fusermount3"),
        (replace(USER, is_fusermount_privileged=False), "mounting", Level.FAULT, "no rights of root"),
        (replace(USER, allows_other=False), "mounting", Level.NOTE, "only this user"),
        (USER, "mounting", Level.GOOD, "fusermount3"),
        (replace(FINE, fusermount=None), "mounting", Level.GOOD, "without help"),
        (replace(FINE, open_files=256), "open files", Level.FAULT, "256"),
        (replace(FINE, open_files=20_000), "open files", Level.NOTE, "20,000"),
        (replace(FINE, open_files=-1), "open files", Level.GOOD, "enough"),
        (
            replace(FINE, engine=None, engine_fault="cannot be loaded"),
            "versions",
            Level.FAULT,
            "cannot be loaded",
        ),
        (replace(FINE, engine="0.0.9"), "versions", Level.FAULT, "0.0.9"),
        (replace(FINE, is_debug_engine=True), "versions", Level.NOTE, "debug"),
        (replace(FINE, proxies={"https_proxy": "http://proxy:3128"}), "proxies", Level.NOTE, "proxy:3128"),
    ],
)
def test_what_a_machine_lacks_is_named_with_its_remedy(
    facts: MachineFacts, check: str, level: Level, words: str
) -> None:
    (found,) = [each for each in machine_checks.check(facts) if each.check == check]
    assert (found.level, words in found.text) == (level, True), found
    assert found.remedy or level is not Level.FAULT


def test_the_password_of_a_proxy_is_not_told() -> None:
    facts = replace(
        FINE, proxies={"http_proxy": "http://planted:hidden@proxy:1", "all_proxy": "planted:hidden@proxy:2"}
    )
    told = str([finding.as_dict() for finding in machine_checks.check(facts)])
    assert "hidden" not in told and "planted" not in told
    assert "proxy:1" in told and "proxy:2" in told


CACHE = CacheFacts(Path("/c"), Path("/c"), "ext4", 100 << 30, 50 << 30, 1e9)


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        (CACHE, Level.GOOD, ""),
        (replace(CACHE, file_system="nfs4"), Level.FAULT, "network"),
        (replace(CACHE, file_system="fuse.s3fs"), Level.FAULT, "network"),
        (replace(CACHE, file_system="overlay"), Level.NOTE, "overlay"),
        (replace(CACHE, file_system="tmpfs"), Level.NOTE, "memory"),
        (replace(CACHE, free_bytes=1 << 20), Level.FAULT, "too little"),
        (replace(CACHE, write_bytes_per_s=5e6), Level.NOTE, "faster than this disk"),
        (replace(CACHE, write_bytes_per_s=None, fault="Read-only file system"), Level.FAULT, "Read-only"),
    ],
)
def test_a_disk_is_judged_by_kind_room_and_speed(facts: CacheFacts, level: Level, words: str) -> None:
    worst = max(cache_checks.check(facts), key=lambda found: list(Level).index(found.level))
    assert (worst.level, words in worst.text) == (level, True), worst


def test_a_folder_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    facts = gather(tmp_path / "not" / "made")
    assert facts.probed == tmp_path and list(tmp_path.iterdir()) == []
    assert facts.write_bytes_per_s and facts.free_bytes and facts.file_system != "unknown"
