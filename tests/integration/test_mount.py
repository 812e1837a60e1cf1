"""A bucket or folder behaves as plain read-only files, in every mount mode."""

from __future__ import annotations

import errno
import mmap
import os
import random
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.testing.s3_server import S3Server

from .harness import Shell, drop_page_cache, mode_words, tree_of
from .servers import Bucket, exposed_shell_of

MODES = ["passthrough", "elide", "classic", "view"]


@pytest.fixture(params=MODES, scope="module")
def mode(request: pytest.FixtureRequest) -> str:
    mode_words(request.param)
    return request.param


@pytest.fixture(scope="module")
def mounted_bucket(
    tmp_path_factory: pytest.TempPathFactory, mode: str
) -> Iterator[tuple[Path, dict[str, bytes], Shell]]:
    """(mountpoint, content by path, shell) of a bucket with files of many sizes; cold for the first test."""
    folder = tmp_path_factory.mktemp(mode)
    content = {f"class-{i % 3}/file-{i:03}.bin": random.Random(i).randbytes(i * 1371) for i in range(60)}
    content["big/blocks.bin"] = random.Random(99).randbytes(9 * (1 << 20) + 12345)
    content["empty.txt"] = b""
    with S3Server(folder / "objects", state=folder / "server") as server:
        bucket, shell = Bucket(server), exposed_shell_of(folder / "home", server)
        bucket.fill(content)
        words = mode_words(mode)
        with shell.mounted(
            bucket.uri, folder / "mnt", *words, cache=folder / "cache", options=bucket.options
        ) as mountpoint:
            yield mountpoint, content, shell


def test_every_byte_of_every_file_is_right_cold_and_warm(mounted_bucket) -> None:
    mountpoint, content, _ = mounted_bucket
    assert tree_of(mountpoint) == content
    drop_page_cache()
    assert tree_of(mountpoint) == content


def test_random_reads_by_many_threads_match_the_source(mounted_bucket) -> None:
    mountpoint, content, _ = mounted_bucket
    expected = content["big/blocks.bin"]

    def read_some(seed: int) -> None:
        chance = random.Random(seed)
        with (mountpoint / "big/blocks.bin").open("rb", buffering=0) as file:
            for _ in range(60):
                offset = chance.randrange(len(expected) + 5000)
                length = chance.choice([1, 100, 4096, 131072, 1 << 20])
                file.seek(offset)
                assert file.read(length) == expected[offset : offset + length]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read_some, range(16)))


def test_mmap_sendfile_and_direct_reads_work(mounted_bucket, mode: str, tmp_path: Path) -> None:
    mountpoint, content, _ = mounted_bucket
    expected = content["big/blocks.bin"]
    with (mountpoint / "big/blocks.bin").open("rb") as file:
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
            assert view[5_000_000:5_000_100] == expected[5_000_000:5_000_100]
        with (tmp_path / "copy").open("wb") as copy:
            sent = 0
            while count := os.sendfile(copy.fileno(), file.fileno(), sent, 1 << 20):
                sent += count
        assert (tmp_path / "copy").read_bytes() == expected
    if mode == "view":
        with pytest.raises(OSError, match="Invalid argument"):
            os.open(mountpoint / "big/blocks.bin", os.O_RDONLY | os.O_DIRECT)
        return
    descriptor = os.open(mountpoint / "big/blocks.bin", os.O_RDONLY | os.O_DIRECT)
    try:
        page = mmap.mmap(-1, 1 << 16)
        assert os.preadv(descriptor, [page], 1 << 20) == 1 << 16
        assert page[:] == expected[1 << 20 : (1 << 20) + (1 << 16)]
    finally:
        os.close(descriptor)


def test_every_write_is_refused_as_read_only(mounted_bucket) -> None:
    mountpoint, _, _ = mounted_bucket
    attempts = [
        lambda: (mountpoint / "new").write_bytes(b"x"),
        lambda: (mountpoint / "empty.txt").open("ab"),
        (mountpoint / "empty.txt").unlink,
        (mountpoint / "folder").mkdir,
        lambda: (mountpoint / "empty.txt").rename(mountpoint / "other"),
        lambda: os.truncate(mountpoint / "empty.txt", 1),
        lambda: os.chmod(mountpoint / "empty.txt", 0o600),
        lambda: os.symlink("a", mountpoint / "link"),
        lambda: os.link(mountpoint / "empty.txt", mountpoint / "hard"),
        lambda: os.setxattr(mountpoint / "empty.txt", "user.a", b"b"),
        lambda: os.utime(mountpoint / "empty.txt"),
        lambda: os.rmdir(mountpoint / "big"),
    ]
    for number, attempt in enumerate(attempts):
        with pytest.raises(OSError) as caught:
            attempt()
        assert caught.value.errno == errno.EROFS, f"attempt {number}: {caught.value}"


def test_what_is_missing_is_missing(mounted_bucket) -> None:
    mountpoint, _, _ = mounted_bucket
    assert not (mountpoint / "absent").exists()
    with pytest.raises(NotADirectoryError):
        (mountpoint / "empty.txt" / "below").stat()
    with pytest.raises(IsADirectoryError):
        (mountpoint / "big").read_bytes()


def test_statfs_and_find_tell_the_truth(mounted_bucket) -> None:
    mountpoint, content, _ = mounted_bucket
    facts = os.statvfs(mountpoint)
    assert facts.f_blocks * facts.f_frsize >= sum(map(len, content.values()))
    found = subprocess.run(
        ["find", str(mountpoint), "-type", "f"], capture_output=True, text=True, check=True
    )
    assert len(found.stdout.splitlines()) == len(content)


def test_a_busy_mount_is_not_unmounted_unless_forced(mounted_bucket) -> None:
    mountpoint, content, shell = mounted_bucket
    with (mountpoint / "big/blocks.bin").open("rb") as file:
        refused = shell.run("unmount", mountpoint)
        assert refused.code != 0
        assert f"{mountpoint} is in use by " in refused.stderr
        assert f"({os.getpid()})" in refused.stderr
        assert os.path.ismount(mountpoint)
        assert file.read(10) == content["big/blocks.bin"][:10]


def test_a_folder_keeps_its_symbolic_links(shell: Shell, tmp_path: Path, mode: str) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "data").write_bytes(b"content")
    (source / "link").symlink_to("sub/data")
    (source / "outside").symlink_to("/etc/hostname")
    with shell.mounted(
        f"local://{source}", tmp_path / "mnt", *mode_words(mode), cache=tmp_path / "cache"
    ) as mountpoint:
        assert (mountpoint / "link").read_bytes() == b"content"
        assert (mountpoint / "outside").readlink() == Path("/etc/hostname")


def test_several_origins_appear_under_their_names(shell: Shell, bucket, tmp_path: Path) -> None:
    bucket.fill({"a.txt": b"from the bucket"})
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "b.txt").write_bytes(b"from the folder")
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    options = [word for name, value in bucket.options.items() for word in ("--option", f"{name}={value}")]
    shell.must(
        "mount", f"bucket={bucket.uri}", f"folder={tmp_path / 'folder'}", mountpoint,
        "--cache", f"{tmp_path / 'cache'}:1Gi", *options,
    )  # fmt: skip
    try:
        assert tree_of(mountpoint) == {"bucket/a.txt": b"from the bucket", "folder/b.txt": b"from the folder"}
    finally:
        shell.must("unmount", mountpoint)
