from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.engine.registry import Registry
from headrace.errors import BusyError, ConfigError, MissingFileError, RefusedError, UnsupportedError
from headrace.roles.mountpoint import mountpoints
from headrace.roles.mountpoint.mountpoints import check_mountpoint, check_places, unmount, users_of
from headrace.settings.engine import EngineConfig, FolderConfig, LevelConfig, Medium
from headrace.settings.origins import LocalOrigin, OriginMount


def config(origin: str, cache: str, state: str = "/state") -> EngineConfig:
    level = LevelConfig(medium=Medium.SSD, folders=(FolderConfig(path=Path(cache), quota_bytes=1),))
    mount = OriginMount(origin=LocalOrigin(directory=Path(origin)))
    return EngineConfig(name="n", origins=(mount,), cache=(level,), state_directory=Path(state))


def test_places_apart_are_fine() -> None:
    check_places(Path("/mnt/data"), config("/mnt/database", "/ssd"))


@pytest.mark.parametrize(
    ("mountpoint", "made"),
    [
        ("/data/mnt", config("/data", "/ssd")),
        ("/mnt", config("/mnt/data", "/ssd")),
        ("/data", config("/data", "/ssd")),
        ("/mnt", config("/data", "/data/cache")),
        ("/mnt", config("/data", "/mnt/cache")),
        ("/mnt", config("/data", "/ssd", state="/mnt/state")),
    ],
)
def test_places_inside_each_other_are_refused(mountpoint: str, made: EngineConfig) -> None:
    with pytest.raises(ConfigError, match="lies below"):
        check_places(Path(mountpoint), made)


def test_machine_without_fuse_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(UnsupportedError, match="no /dev/fuse") as caught:
        check_mountpoint(tmp_path, nonempty=False)
    assert "modprobe fuse" in (caught.value.hint or "")


def test_user_without_fusermount_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: True)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(mountpoints.shutil, "which", lambda _: None)
    with pytest.raises(UnsupportedError, match="fusermount3"):
        check_mountpoint(tmp_path, nonempty=False)


@pytest.mark.parametrize(
    ("number", "error", "message"),
    [
        (107, BusyError, "whose process has died"),
        (13, RefusedError, "no right"),
        (5, ConfigError, "cannot use"),
    ],
)
def test_mountpoint_that_cannot_be_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception], message: str
) -> None:
    def fails(_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(mountpoints.os, "access", lambda *_: True)
    monkeypatch.setattr(mountpoints.os, "scandir", fails)
    with pytest.raises(error, match=message):
        check_mountpoint(tmp_path, nonempty=False)


def test_users_of_a_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    program = f"import sys; file = open({str(tmp_path / 'file')!r}); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        assert any(user.endswith(f"({process.pid})") for user in users_of(tmp_path))
        process.stdin.close()
    assert users_of(tmp_path) == []


def test_nothing_to_unmount_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="nothing is mounted"):
        unmount(tmp_path, Registry(tmp_path), force=False, lazy=False)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("umount: /mnt: target is busy.", BusyError),
        ("fusermount3: failed to unmount /mnt: Device or resource busy", BusyError),
        ("fusermount3: entry for /mnt not found in /etc/mtab: Operation not permitted", RefusedError),
        ("umount: /mnt: must be superuser to unmount.", RefusedError),
        ("something else", ConfigError),
    ],
)
def test_refusal_of_the_system_is_understood(said: str, error: type[Exception]) -> None:
    assert type(mountpoints._explain(Path("/mnt/none-such"), said)) is error
