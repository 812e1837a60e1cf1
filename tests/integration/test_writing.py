"""Programs write to a mount: what they close is in the origin, whole, whatever dies when. See docs/writing.md."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.testing.buckets import put_object
from headrace.testing.faulty_origin import Fault, FaultyOrigin, Lie
from headrace.testing.s3_server import S3Server

from .harness import Shell, tree_of
from .servers import Bucket, shell_of
from .survival import kill_process, registered, shell_without_server, wait_until, wait_until_restarted

RENAME_NOREPLACE = 1


@dataclass
class Place:
    """An origin that can be written to, and its mount."""

    shell: Shell
    origin: str
    options: dict[str, str]
    objects: Path
    """Where the origin's files lie, to look at without the mount."""
    folder: Path

    def mounted(self, *words: str):
        cache, options = self.folder / "cache", self.options
        return self.shell.mounted(
            self.origin, self.folder / "mnt", "--writable", *words, cache=cache, options=options
        )

    def held(self) -> dict[str, bytes]:
        return {name: data for name, data in tree_of(self.objects).items() if not name.startswith(".sgwtmp")}


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        objects = tmp_path / "source"
        objects.mkdir()
        return Place(shell_without_server(tmp_path / "home"), str(objects), {}, objects, tmp_path)
    server: S3Server = request.getfixturevalue("server")
    bucket = Bucket(server)
    bucket.fill({})
    objects = server.bucket_folder(bucket.name)
    return Place(shell_of(tmp_path / "home", server), bucket.uri, bucket.options, objects, tmp_path)


@pytest.fixture
def mountpoint(place: Place) -> Iterator[Path]:
    with place.mounted() as mountpoint:
        yield mountpoint


def rename(old: Path, new: Path, flags: int) -> int:
    """`renameat2`; its errno."""
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags)
    return ctypes.get_errno() if done else 0


def test_a_file_that_is_closed_is_in_the_origin(place: Place, mountpoint: Path) -> None:
    for size in (0, 1, 4096, 100_000, 3_000_001):
        data = os.urandom(size)
        (mountpoint / "file").write_bytes(data)
        assert place.held() == {"file": data}
        assert (mountpoint / "file").read_bytes() == data
        assert (mountpoint / "file").stat().st_size == size


def test_a_large_file_is_uploaded_in_parts(place: Place, mountpoint: Path) -> None:
    data = os.urandom(40 << 20)
    (mountpoint / "large").write_bytes(data)
    assert place.held() == {"large": data}
    assert (mountpoint / "large").read_bytes() == data


def test_files_are_written_out_of_order_with_gaps_and_set_sizes(place: Place, mountpoint: Path) -> None:
    with (mountpoint / "file").open("w+b", buffering=0) as file:
        file.seek(10_000)
        file.write(b"end")
        file.seek(0)
        file.write(b"start")
        assert os.pread(file.fileno(), 20_000, 0) == b"start" + bytes(9_995) + b"end"
        assert os.fstat(file.fileno()).st_size == 10_003
        file.truncate(20_000)
        file.truncate(10)
        assert (mountpoint / "file").read_bytes() == b"start" + bytes(5)
    assert place.held() == {"file": b"start" + bytes(5)}
    os.truncate(mountpoint / "file", 3)
    assert place.held() == {"file": b"sta"}


def test_a_file_is_appended_to_and_opened_again(place: Place, mountpoint: Path) -> None:
    for line in (b"one\n", b"two\n", b"three\n"):
        with (mountpoint / "log").open("ab") as file:
            file.write(line)
    assert place.held() == {"log": b"one\ntwo\nthree\n"}
    with (mountpoint / "log").open("r+b") as file:
        file.write(b"ONE")
    assert place.held() == {"log": b"ONE\ntwo\nthree\n"}
    assert (mountpoint / "log").read_bytes() == b"ONE\ntwo\nthree\n"


def test_files_of_the_origin_are_changed_replaced_renamed_and_removed(place: Place) -> None:
    files = {
        "d/change": b"0123456789",
        "d/replace": b"old",
        "d/move": b"moved",
        "d/remove": b"x",
        "keep": b"k",
    }
    for name, data in files.items():
        if place.options:
            put_object(place.objects, name, data)
        else:
            (place.objects / name).parent.mkdir(exist_ok=True)
            (place.objects / name).write_bytes(data)
    with place.mounted() as mountpoint:
        with (mountpoint / "d/change").open("r+b") as file:
            file.seek(5)
            file.write(b"abc")
        with (mountpoint / "d/replace").open("rb", buffering=0) as reader:
            assert reader.read() == b"old"
            (mountpoint / "d/replace").write_bytes(b"new content")
            assert os.pread(reader.fileno(), 100, 0) == b"old"
        (mountpoint / "d/move").rename(mountpoint / "there")
        (mountpoint / "d/remove").unlink()
        now = {"d/change": b"01234abc89", "d/replace": b"new content", "there": b"moved", "keep": b"k"}
        assert tree_of(mountpoint) == now
        assert place.held() == now
        assert sorted(os.listdir(mountpoint / "d")) == ["change", "replace"]
    with place.mounted() as mountpoint:
        assert tree_of(mountpoint) == now


def test_a_rename_takes_the_place_of_a_file_also_while_it_is_written(place: Place, mountpoint: Path) -> None:
    (mountpoint / "ckpt").write_bytes(b"old")
    # As safetensors saves.
    descriptor, name = tempfile.mkstemp(dir=mountpoint)
    os.ftruncate(descriptor, 6)
    os.write(descriptor, b"abcdef")
    os.rename(name, mountpoint / "ckpt")
    assert (mountpoint / "ckpt").read_bytes() == b"abcdef"
    os.close(descriptor)
    assert place.held() == {"ckpt": b"abcdef"}
    # As torch.distributed.checkpoint does.
    (mountpoint / ".metadata.tmp").write_bytes(b"m")
    with (mountpoint / ".metadata.tmp").open("ab") as file:
        os.fsync(file.fileno())
    (mountpoint / ".metadata.tmp").rename(mountpoint / ".metadata")
    assert place.held() == {"ckpt": b"abcdef", ".metadata": b"m"}
    assert sorted(os.listdir(mountpoint)) == [".metadata", "ckpt"]
    # What is written after the rename counts as well.
    with (mountpoint / "late.tmp").open("wb", buffering=0) as file:
        file.write(b"one")
        (mountpoint / "late.tmp").rename(mountpoint / "late")
        file.write(b"two")
    assert place.held()["late"] == b"onetwo"


def test_a_rename_without_replacing_and_what_cannot_be_is_refused(place: Place, mountpoint: Path) -> None:
    (mountpoint / "a").write_bytes(b"a")
    (mountpoint / "b").write_bytes(b"b")
    (mountpoint / "d").mkdir()
    assert rename(mountpoint / "a", mountpoint / "b", RENAME_NOREPLACE) == errno.EEXIST
    assert rename(mountpoint / "a", mountpoint / "c", RENAME_NOREPLACE) == 0
    refusals: list[tuple[int, Callable[[], object]]] = [
        (errno.EXDEV, lambda: (mountpoint / "d").rename(mountpoint / "e")),
        (errno.EOPNOTSUPP, lambda: (mountpoint / "link").symlink_to("b")),
        (errno.EOPNOTSUPP, lambda: os.link(mountpoint / "b", mountpoint / "hard")),
        (errno.EEXIST, lambda: os.open(mountpoint / "b", os.O_CREAT | os.O_EXCL | os.O_WRONLY)),
        (errno.EISDIR, lambda: os.open(mountpoint / "d", os.O_WRONLY)),
        (errno.ENAMETOOLONG, lambda: (mountpoint / ("n" * 256)).write_bytes(b"")),
    ]
    for number, refused in refusals:
        with pytest.raises(OSError) as caught:
            refused()
        assert caught.value.errno == number, refused
    assert place.held() == {"c": b"a", "b": b"b"}


def test_a_shared_map_that_could_change_a_file_after_its_close_is_refused(mountpoint: Path) -> None:
    (mountpoint / "file").write_bytes(bytes(8192))
    with (mountpoint / "file").open("r+b") as file:
        with pytest.raises(OSError) as caught:
            mmap.mmap(file.fileno(), 0)
        assert caught.value.errno == errno.ENODEV
    with (mountpoint / "file").open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
        assert view[:] == bytes(8192)


def test_a_file_that_is_removed_while_it_is_open_stays_for_who_has_it(place: Place, mountpoint: Path) -> None:
    (mountpoint / "file").write_bytes(b"content")
    with (mountpoint / "file").open("r+b", buffering=0) as file:
        (mountpoint / "file").unlink()
        assert not (mountpoint / "file").exists()
        assert file.read() == b"content"
        file.write(b" more")
    assert place.held() == {}
    assert os.listdir(mountpoint) == []


def test_with_two_handles_the_last_close_puts_the_file_there(place: Place, mountpoint: Path) -> None:
    first = (mountpoint / "file").open("wb", buffering=0)
    second = (mountpoint / "file").open("r+b", buffering=0)
    second.seek(3)
    second.write(b"def")
    second.close()
    assert place.held() == {}
    first.write(b"abc")
    first.close()
    assert place.held() == {"file": b"abcdef"}


def test_a_child_that_ends_does_not_publish_what_its_parent_is_writing(
    place: Place, mountpoint: Path
) -> None:
    with (mountpoint / "file").open("wb", buffering=0) as file:
        file.write(b"half")
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        assert place.held() == {}
        file.write(b" and half")
    assert place.held() == {"file": b"half and half"}


def test_fsync_puts_what_was_written_until_then_into_the_origin(place: Place, mountpoint: Path) -> None:
    with (mountpoint / "events").open("wb", buffering=0) as file:
        for count in range(1, 4):
            file.write(b"event")
            os.fsync(file.fileno())
            assert place.held() == {"events": b"event" * count}


def test_folders_modes_and_times(place: Place, mountpoint: Path) -> None:
    (mountpoint / "a/b").mkdir(parents=True)
    with pytest.raises(FileExistsError):
        (mountpoint / "a").mkdir()
    (mountpoint / "a/b/file").write_bytes(b"x")
    assert place.held() == {"a/b/file": b"x"}
    with pytest.raises(OSError) as caught:
        (mountpoint / "a").rmdir()
    assert caught.value.errno == errno.ENOTEMPTY
    os.chmod(mountpoint / "a/b/file", 0o640)
    os.utime(mountpoint / "a/b/file", ns=(1_000_000_007, 2_000_000_009))
    told = (mountpoint / "a/b/file").stat()
    assert (told.st_mode & 0o777, told.st_mtime_ns) == (0o640, 2_000_000_009)
    descriptor = os.open(mountpoint / "a", os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    room = os.statvfs(mountpoint)
    assert room.f_bavail > 0 and room.f_frsize > 0
    shutil.rmtree(mountpoint / "a")
    assert place.held() == {} and os.listdir(mountpoint) == []


def test_a_file_that_is_secret_here_is_secret_in_a_folder(place: Place, mountpoint: Path) -> None:
    descriptor = os.open(mountpoint / "secret", os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(descriptor, b"x")
    os.close(descriptor)
    if not place.options:
        assert (place.objects / "secret").stat().st_mode & 0o777 == 0o600


def test_readers_elsewhere_see_the_old_file_or_the_new_one(place: Place, mountpoint: Path) -> None:
    contents = [bytes([65 + number]) * 300_000 for number in range(12)]
    (mountpoint / "file").write_bytes(contents[0])
    stop, wrong, seen = threading.Event(), [], set()

    def look() -> None:
        while not stop.is_set():
            data = (place.objects / "file").read_bytes()
            seen.add(data[:1])
            if data not in contents:
                wrong.append(data[:20])

    looking = threading.Thread(target=look)
    looking.start()
    for data in contents:
        (mountpoint / "file").write_bytes(data)
        with (mountpoint / "file").open("rb") as file:
            assert file.read() == data
    stop.set()
    looking.join()
    assert wrong == []
    assert seen


def test_what_the_origin_holds_is_not_overwritten_in_silence(place: Place, mountpoint: Path) -> None:
    (mountpoint / "file").write_bytes(b"ours")
    put(place, "file", b"somebody else's")
    with pytest.raises(OSError) as caught:
        (mountpoint / "file").write_bytes(b"ours again")
    assert caught.value.errno == errno.ESTALE
    assert place.held() == {"file": b"somebody else's"}
    (told,) = place.shell.status(mountpoint)["writing"]["unpublished"]
    assert told["path"] == "file" and "somebody else" in told["error"]
    assert Path(told["file"]).read_bytes() == b"ours again"
    assert place.shell.run("sync", mountpoint).code != 0
    place.shell.must("sync", mountpoint, "--ours", "file")
    assert place.held() == {"file": b"ours again"}
    put(place, "file", b"once more")
    with suppress(OSError):
        (mountpoint / "file").write_bytes(b"lost")
    place.shell.must("sync", mountpoint, "--theirs", "file")
    assert place.held() == {"file": b"once more"}
    assert place.shell.status(mountpoint)["writing"]["unpublished"] == []


def put(place: Place, name: str, data: bytes) -> None:
    """Somebody else's file in the origin."""
    if place.options:
        put_object(place.objects, name, data)
    else:
        (place.objects / name).write_bytes(data)


def test_a_process_that_is_killed_loses_nothing_and_open_handles_go_on(
    place: Place, mountpoint: Path
) -> None:
    (mountpoint / "closed").write_bytes(b"closed")
    with (mountpoint / "open").open("w+b", buffering=0) as file:
        file.write(b"before ")
        os.fsync(file.fileno())
        file.write(b"unsynced ")
        for count in (1, 2):
            before = kill_process(place.shell, mountpoint)
            file.write(b"after ")
            assert os.pread(file.fileno(), 100, 0) == b"before unsynced " + b"after " * count
            wait_until_restarted(place.shell, mountpoint, beyond=before)
        assert (mountpoint / "closed").read_bytes() == b"closed"
    assert place.held() == {"closed": b"closed", "open": b"before unsynced after after "}
    (mountpoint / "new").write_bytes(b"new")
    (mountpoint / "new").rename(mountpoint / "closed")
    assert place.held()["closed"] == b"new"


def test_a_mount_that_dies_altogether_publishes_what_was_closed_and_keeps_what_was_open(
    lying_place: Place, liar: FaultyOrigin
) -> None:
    place, shell = lying_place, lying_place.shell
    with place.mounted() as mountpoint:
        opened = (mountpoint / "half").open("wb", buffering=0)
        opened.write(b"half of it")
        held = liar.add(Fault(Lie.HELD, r"/closed", "PUT"))
        writer = threading.Thread(target=write_leniently, args=(mountpoint / "closed", b"closed"))
        writer.start()
        wait_until(lambda: held.done, lambda: liar.requests)
        entry = registered(shell, mountpoint)
        os.kill(entry.supervisor_pid, signal.SIGKILL)
        os.kill(entry.pid, signal.SIGKILL)
        liar.clear()
        with suppress(OSError):
            opened.close()
        writer.join()
    held.released.set()
    with place.mounted() as mountpoint:
        assert place.held()["closed"] == b"closed"
        assert "half" not in place.held() and not (mountpoint / "half").exists()
        (told,) = shell.status(mountpoint)["writing"]["unpublished"]
        assert told["was_open"] and Path(told["file"]).read_bytes() == b"half of it"
        # It can be looked at under another name, and removed.
        aside = mountpoint / told["path"]
        assert aside.read_bytes() == b"half of it"
        aside.unlink()
        assert shell.status(mountpoint)["writing"]["unpublished"] == []


def tried_once_more(shell: Shell) -> None:
    """Faults of the storage are given up soon."""
    config = shell.home / "headrace.toml"
    config.write_text("[dataset]\nretries = 1\n")
    shell.environment["HEADRACE_CONFIG"] = str(config)


def write_leniently(path: Path, data: bytes) -> None:
    with suppress(OSError):
        path.write_bytes(data)


def test_a_storage_that_refuses_is_an_error_at_close_and_nothing_is_lost(
    lying_place: Place, liar: FaultyOrigin
) -> None:
    place, shell = lying_place, lying_place.shell
    tried_once_more(shell)
    with place.mounted() as mountpoint:
        refused = liar.add(Fault(Lie.CONNECTION_RESET, r"/file", "PUT"))
        file = (mountpoint / "file").open("wb", buffering=0)
        file.write(b"content")
        with pytest.raises(OSError) as caught:
            file.close()
        assert caught.value.errno == errno.EIO and refused.done
        assert place.held() == {}
        (told,) = shell.status(mountpoint)["writing"]["unpublished"]
        assert told["path"] == "file" and told["error"]
        assert (mountpoint / "file").read_bytes() == b"content"
        assert "unsynced" in shell.must("status", mountpoint).stdout
        assert shell.run("sync", mountpoint).code != 0
        liar.clear()
        shell.must("sync", mountpoint)
        assert place.held() == {"file": b"content"}
        assert shell.status(mountpoint)["writing"]["unpublished"] == []


@pytest.fixture
def lying_place(lying_bucket: Bucket, tmp_path: Path, server: S3Server) -> Place:
    """A bucket whose server can be told to lie."""
    objects = server.bucket_folder(lying_bucket.name)
    shell = shell_of(tmp_path / "home", server)
    return Place(shell, lying_bucket.uri, lying_bucket.options, objects, tmp_path)


def test_what_comes_between_the_look_and_the_upload_is_not_overwritten(
    lying_place: Place, liar: FaultyOrigin
) -> None:
    with lying_place.mounted() as mountpoint:
        held = liar.add(Fault(Lie.HELD, r"/file", "PUT", times=1))
        caught: list[OSError] = []

        def write() -> None:
            try:
                (mountpoint / "file").write_bytes(b"ours")
            except OSError as error:
                caught.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        wait_until(lambda: held.done, lambda: liar.requests)
        put(lying_place, "file", b"theirs")
        held.released.set()
        writer.join()
        assert [error.errno for error in caught] == [errno.ESTALE]
        assert lying_place.held() == {"file": b"theirs"}


@pytest.mark.parametrize("change", ["unlink", "rename"])
def test_a_name_that_goes_while_its_file_is_uploaded_stays_gone(
    lying_place: Place, liar: FaultyOrigin, change: str
) -> None:
    with lying_place.mounted() as mountpoint:
        held = liar.add(Fault(Lie.HELD, r"/file", "PUT", times=1))
        writer = threading.Thread(target=write_leniently, args=(mountpoint / "file", b"content"))
        writer.start()
        wait_until(lambda: held.done, lambda: liar.requests)
        done = (mountpoint / "file").unlink if change == "unlink" else None
        changer = threading.Thread(target=done or (lambda: (mountpoint / "file").rename(mountpoint / "new")))
        changer.start()
        held.released.set()
        writer.join()
        changer.join()
        expected = {} if change == "unlink" else {"new": b"content"}
        assert lying_place.held() == expected
        assert tree_of(mountpoint) == expected


def test_a_close_goes_on_in_the_next_process_when_one_dies_in_it(
    lying_place: Place, liar: FaultyOrigin
) -> None:
    with lying_place.mounted() as mountpoint:
        held = liar.add(Fault(Lie.HELD, r"/file", "PUT", times=1))
        failed: list[OSError] = []

        def write() -> None:
            try:
                (mountpoint / "file").write_bytes(b"content")
            except OSError as error:
                failed.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        wait_until(lambda: held.done, lambda: liar.requests)
        kill_process(lying_place.shell, mountpoint)
        writer.join()
        held.released.set()
        assert failed == []
        assert lying_place.held() == {"file": b"content"}


def test_an_upload_that_fails_leaves_nothing_in_the_storage(lying_place: Place, liar: FaultyOrigin) -> None:
    tried_once_more(lying_place.shell)
    with lying_place.mounted() as mountpoint:
        cut = liar.add(Fault(Lie.CONNECTION_RESET, r"partNumber=2", "PUT"))
        data = os.urandom(40 << 20)
        with pytest.raises(OSError) as caught:
            (mountpoint / "large").write_bytes(data)
        assert caught.value.errno == errno.EIO and cut.done
        assert tree_of(lying_place.objects) == {}, "parts of an upload that nobody goes on with"
        liar.clear()
        lying_place.shell.must("sync", mountpoint)
        assert lying_place.held() == {"large": data}


def test_another_try_after_a_failure_overwrites_nothing_of_others(
    lying_place: Place, liar: FaultyOrigin
) -> None:
    tried_once_more(lying_place.shell)
    with lying_place.mounted() as mountpoint:
        liar.add(Fault(Lie.CONNECTION_RESET, r"/file", "PUT"))
        with pytest.raises(OSError) as caught:
            (mountpoint / "file").write_bytes(b"ours")
        assert caught.value.errno == errno.EIO
        put(lying_place, "file", b"theirs")
        liar.clear()
        assert lying_place.shell.run("sync", mountpoint).code != 0
        assert lying_place.held() == {"file": b"theirs"}
    with lying_place.mounted() as mountpoint:
        assert lying_place.held() == {"file": b"theirs"}
        (told,) = lying_place.shell.status(mountpoint)["writing"]["unpublished"]
        assert told["path"] == "file"
        lying_place.shell.must("sync", mountpoint, "--ours", "file")
        assert lying_place.held() == {"file": b"ours"}


def test_an_answer_that_was_lost_is_no_conflict(lying_place: Place, liar: FaultyOrigin) -> None:
    with lying_place.mounted() as mountpoint:
        # The server has stored it; the answer says otherwise.
        lost = liar.add(Fault(Lie.SERVICE_UNAVAILABLE, r"/file", "PUT", times=3))
        (mountpoint / "file").write_bytes(b"content")
        assert lost.done
        assert lying_place.held() == {"file": b"content"}


def test_an_origin_that_cannot_be_written_is_refused_in_words(tmp_path: Path) -> None:
    shell = shell_without_server(tmp_path / "home")
    for folder in ("one", "two", "mnt"):
        (tmp_path / folder).mkdir()
    several = [f"a={tmp_path / 'one'}", f"b={tmp_path / 'two'}"]
    refused = shell.run("mount", "--writable", *several, tmp_path / "mnt")
    assert refused.code and "one origin" in refused.talk
    refused = shell.run("mount", "--writable", "--mode", "view", tmp_path / "one", tmp_path / "mnt")
    assert refused.code and "view" in refused.talk
    refused = shell.run("mount", "--writable", "--snapshot", "keep", tmp_path / "one", tmp_path / "mnt")
    assert refused.code and "lists its origin" in refused.talk
    with shell.mounted(str(tmp_path / "one"), tmp_path / "mnt") as mountpoint:
        with pytest.raises(OSError) as caught:
            (mountpoint / "file").write_bytes(b"")
        assert caught.value.errno == errno.EROFS


def test_git_clone_and_cp_work(place: Place, mountpoint: Path, tmp_path: Path) -> None:
    source = tmp_path / "repository"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*"]
    subprocess.run([*git, "init", "-q", source], check=True)
    for number in range(20):
        (source / f"file-{number}").write_bytes(os.urandom(10_000))
    subprocess.run([*git, "-C", source, "add", "."], check=True)
    subprocess.run([*git, "-C", source, "commit", "-qm", "one"], check=True)
    subprocess.run([*git, "clone", "-q", "--no-hardlinks", source, mountpoint / "clone"], check=True)
    subprocess.run([*git, "-C", mountpoint / "clone", "fsck", "--strict"], check=True)
    subprocess.run(["cp", "-a", source / "file-1", mountpoint / "copy"], check=True)
    assert (mountpoint / "copy").read_bytes() == (source / "file-1").read_bytes()
    assert (mountpoint / "copy").stat().st_mtime_ns == (source / "file-1").stat().st_mtime_ns
    held = place.held()
    assert {name: held[f"clone/{name}"] for name in ("file-0", "file-19")} == {
        name: (source / name).read_bytes() for name in ("file-0", "file-19")
    }


def test_numpy_and_safetensors_save_and_load(place: Place, mountpoint: Path) -> None:
    numpy = pytest.importorskip("numpy")
    saved = numpy.arange(200_000, dtype="float32")
    numpy.save(mountpoint / "one.npy", saved)
    numpy.savez(mountpoint / "many.npz", a=saved, b=saved[:10])
    assert (numpy.load(mountpoint / "one.npy") == saved).all()
    assert (numpy.load(mountpoint / "many.npz")["b"] == saved[:10]).all()
    tensors = pytest.importorskip("safetensors.numpy")
    for factor in (1, 2):
        tensors.save_file({"w": saved * factor}, mountpoint / "model.safetensors")
        assert (tensors.load_file(mountpoint / "model.safetensors")["w"] == saved * factor).all()
    assert sorted(place.held()) == ["many.npz", "model.safetensors", "one.npy"]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
