"""Whoever makes a folder or file of ours first, in a place where all users may, does not get it used."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.cli.terminal import terminal
from headrace.control.cluster_token import create_token, read_token
from headrace.control.state_file import Lock
from headrace.csi.keeper import Keeper
from headrace.engine.caches import prepare_folder
from headrace.engine.handles import Engine
from headrace.engine.registry import Registry
from headrace.errors import RefusedError
from headrace.local.layout import BackendLayout
from headrace.local.lifecycle.backend_lock import restarting
from headrace.local.nodes.managed_folders import ManagedFolders
from headrace.local.processes.private_files import write_private
from headrace.local.protocol.client import LocalClient
from headrace.local.store.database import Database
from headrace.roles.logs import LogFile
from headrace.roles.processes.progress import ProgressFile
from headrace.roles.specs.master_spec import master_spec
from headrace.settings.engine import EngineConfig, FolderConfig
from headrace.settings.environment import Environment
from headrace.settings.origins import LocalOrigin, OriginMount
from headrace.settings.roles import MasterSettings, OriginSettings

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")]

STRANGER = 65534


@pytest.fixture
def shared() -> Iterator[Path]:
    """As /tmp and /dev/shm are."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder).resolve()


def engine_in(state: Path) -> EngineConfig:
    origin = OriginMount(path="", origin=LocalOrigin(directory=Path("/usr/share")))
    return EngineConfig(name="one", origins=(origin,), state_directory=state)


def use_lock(folder: Path) -> None:
    with Lock(folder, "master"):
        pass


def use_guard_lock(folder: Path) -> None:
    with restarting(BackendLayout(folder)):
        pass


def use_managed(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as own:
        ManagedFolders(Database(Path(own) / "objects.db")).make(folder)


FOLDERS: dict[str, Callable[[Path], object]] = {
    "a cache": lambda folder: prepare_folder(FolderConfig(path=folder, quota_bytes=1)),
    "the state of an engine": lambda folder: Engine.open(engine_in(folder)),
    "the state of an engine that is attached to": Engine.attach,
    "the state of a master": use_lock,
    "the register of mounts": lambda folder: Registry(folder).entries(),
    "the local backend": lambda folder: BackendLayout(folder).make(),
    "a cache of the local backend": use_managed,
    "a private file": lambda folder: write_private(folder / "secret", b"words"),
    "the progress of a copy": lambda folder: ProgressFile(folder / "progress").fail("it failed"),
    "the socket of a keeper": lambda folder: Keeper(
        folder / "keeper.sock", lambda _: False, unused_s=1, stranded_s=1
    ).open(),
    "the socket of a supervisor": lambda folder: LocalClient(BackendLayout(folder)).status(),
}


@pytest.mark.parametrize("use", FOLDERS.values(), ids=FOLDERS.keys())
@pytest.mark.parametrize("below", ["", "team/one"])
def test_a_folder_that_a_stranger_made_first_is_refused(
    shared: Path, use: Callable[[Path], object], below: str
) -> None:
    squatted = shared / "headrace"
    (squatted / below).mkdir(parents=True)
    for each in (squatted, *squatted.rglob("*")):
        os.chown(each, STRANGER, STRANGER)
    before = sorted(squatted.rglob("*"))
    with pytest.raises(
        RefusedError, match=f"{squatted} is not safe to use: it belongs to user 65534"
    ) as caught:
        use(squatted / below)
    assert caught.value.hint
    assert sorted(squatted.rglob("*")) == before


def test_a_token_that_a_volume_of_the_pod_holds_is_read(tmp_path: Path) -> None:
    """As Kubernetes mounts a Secret: in a folder that every user may write to, and none but its pod reaches."""
    volume = tmp_path / "token"
    volume.mkdir()
    create_token(volume / "token")
    volume.chmod(0o1777)
    settings = MasterSettings(
        token_file=volume / "token",
        state_directory=tmp_path / "state",
        origins=(OriginSettings(origin=str(tmp_path)),),
    )
    assert master_spec(settings, Environment({}), terminal()).token == read_token(volume / "token")


FILES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "the lock of a master": ("lock", use_lock),
    "the lock of a guard": ("guard.lock", use_guard_lock),
    "the database of the local backend": ("objects.db", lambda folder: Database(folder / "objects.db")),
    "a log": ("mount.log", lambda folder: LogFile(folder / "mount.log").begin()),
}


@pytest.mark.parametrize(("name", "use"), FILES.values(), ids=FILES.keys())
def test_what_a_link_leads_to_is_neither_emptied_nor_written(
    shared: Path, tmp_path: Path, name: str, use: Callable[[Path], object]
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("years of work")
    folder = shared / "ours"
    folder.mkdir(mode=0o700)
    (folder / name).symlink_to(precious)
    with pytest.raises(RefusedError, match="is a link"):
        use(folder)
    assert precious.read_text() == "years of work"
