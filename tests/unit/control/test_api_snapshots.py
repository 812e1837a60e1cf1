"""The master over real HTTP: its snapshot is made, downloaded, and gone on with."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import cluster_double
import pytest
from aiohttp import web
from masters import TOKEN, Running, heartbeat, impostor, until, with_master

from headrace.control.client import ControlClient
from headrace.control.fetching import fetch_snapshot
from headrace.control.messages import Outlook
from headrace.control.outlooks import last_outlook
from headrace.errors import MissingFileError, NoSpaceError, OriginUnreachableError, RefusedError
from headrace.roles.cluster.first_outlook import first_outlook

pytestmark = pytest.mark.usefixtures("module")


def test_a_snapshot_is_downloaded_and_gone_on_with(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)
        outlook = await client.outlook()
        note = outlook.snapshot
        assert note is not None
        assert (note.version, note.files, note.data_bytes) == (1, 3, 1000)
        whole = cluster_double.snapshot_bytes(1)
        folder = tmp_path / "mount"
        folder.mkdir()
        # A download broke off here: the rest alone is fetched.
        (folder / f".snapshot-{note.tag}.part").write_bytes(whole[:150_000])
        pieces: list[bytes] = []
        real = client.copy_snapshot

        async def counted(version: int, offset: int, size: int, write: Callable[[bytes], object]) -> str:
            return await real(version, offset, size, lambda piece: (pieces.append(piece), write(piece)))

        client.copy_snapshot = counted  # type: ignore[method-assign]
        path = await fetch_snapshot(client, note, folder)
        assert path.name == "snapshot-1.hrs"
        assert path.read_bytes() == whole
        assert sum(map(len, pieces)) == 50_000
        assert await fetch_snapshot(client, note, folder) == path
        assert sum(map(len, pieces)) == 50_000
        with pytest.raises(MissingFileError):
            await client.copy_snapshot(77, 0, 1, lambda _: None)

    with_master(tmp_path, test)


def test_a_damaged_part_is_noticed_and_fetched_anew(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)
        note = (await client.outlook()).snapshot
        assert note is not None
        folder = tmp_path / "mount"
        folder.mkdir()
        (folder / f".snapshot-{note.tag}.part").write_bytes(b"x" * 1000)
        from headrace.errors import CorruptDataError

        with pytest.raises(CorruptDataError, match="did not come whole"):
            await fetch_snapshot(client, note, folder)
        assert (await fetch_snapshot(client, note, folder)).read_bytes() == cluster_double.snapshot_bytes(1)

    with_master(tmp_path, test)


def test_origins_that_do_not_answer_at_the_start_are_asked_again(
    tmp_path: Path, module: SimpleNamespace
) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.refresh_error is not None)
        status = await client.status()
        assert status["refresh_error"] == "the bucket does not answer"
        assert status["refresh_error_kind"] == "Unreachable"
        assert status["snapshot"] is None
        with pytest.raises(OriginUnreachableError, match="the bucket does not answer"):
            await client.refresh()
        (tmp_path / "unreachable").unlink()
        assert (await client.refresh()).version == 1
        assert (await client.status())["refresh_error"] is None

    (tmp_path / "unreachable").touch()
    with_master(tmp_path, test)


def test_a_folder_that_takes_no_snapshot_is_told_and_tried_again(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.refresh_error is not None)
        said = f"cannot keep a list of files in {folder}: Not a directory"
        assert (await client.status())["refresh_error"] == said
        with pytest.raises(NoSpaceError, match="cannot keep a list of files"):
            await client.refresh()
        folder.unlink()
        folder.mkdir()
        await until(lambda: master.cluster.shelf.newest is not None)
        assert (await client.status())["refresh_error"] is None

    folder = tmp_path / "engine"
    folder.touch()
    with_master(tmp_path, test)


def test_a_mount_begins_by_what_it_knew_while_a_new_master_cannot_list(tmp_path: Path) -> None:
    folder, said = tmp_path / "mount", list[str]()

    async def begin(master: Running) -> Outlook:
        return await first_outlook(master.url, TOKEN, folder, said.append)

    async def with_a_list(master: Running, client: ControlClient) -> None:
        await client.heartbeat(heartbeat(known_epoch=0))
        await until(lambda: master.cluster.view.epoch > 0 and master.cluster.shelf.newest is not None)
        assert (await begin(master)).view is not None

    async def without_one(master: Running, _: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.refresh_error is not None)
        kept = last_outlook(folder)
        assert await begin(master) == kept
        assert "no snapshot" in said[-1]

    with_master(tmp_path / "m1", with_a_list)
    assert said == []
    (tmp_path / "m2").mkdir()
    (tmp_path / "m2" / "unreachable").touch()
    with_master(tmp_path / "m2", without_one)


def test_a_mount_whose_folder_takes_nothing_begins_by_what_it_knew(tmp_path: Path) -> None:
    folder, said = tmp_path / "mount", list[str]()

    async def test(master: Running, client: ControlClient) -> None:
        await client.heartbeat(heartbeat(known_epoch=0))
        await until(lambda: master.cluster.view.epoch > 0 and master.cluster.shelf.newest is not None)
        kept = await first_outlook(master.url, TOKEN, folder, said.append)
        await client.refresh()
        newest = (await client.outlook()).snapshot
        assert newest is not None
        in_the_way = folder / f".snapshot-{newest.tag}.part"
        in_the_way.mkdir()
        assert await first_outlook(master.url, TOKEN, folder, said.append) == kept
        assert "Is a directory; going by what was known last" in said[-1]
        in_the_way.rmdir()
        assert (await first_outlook(master.url, TOKEN, folder, said.append)).snapshot == newest

    with_master(tmp_path, test)


def test_a_snapshot_of_an_impostor_is_not_believed(tmp_path: Path) -> None:
    async def test(master: Running, _: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)

        async def answer(request: web.Request) -> web.StreamResponse:
            digest = hashlib.sha256(b"evil").hexdigest()
            headers = {"Headrace-Signature": "v1=" + "0" * 64, "Headrace-Digest": digest, "ETag": '"1-x"'}
            return web.Response(body=b"evil", headers=headers)

        note = master.cluster.shelf.newest
        assert note is not None
        async with impostor(answer) as url, ControlClient(url, TOKEN) as client:
            with pytest.raises(RefusedError):
                await fetch_snapshot(client, note.note, tmp_path / "mount")
        assert not list((tmp_path / "mount").glob("snapshot-*"))

    with_master(tmp_path, test)
