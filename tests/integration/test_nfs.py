"""A folder of a real NFS server (nfs-ganesha) behind the mount, without the kernel's client."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import nfs_server
from headrace.testing.nfs_server import NfsServer

from .harness import DEADLINE_S, HEADRACE, Shell, tree_of
from .survival import wait_until

LACKING = nfs_server.lacking()
pytestmark = pytest.mark.skipif(bool(LACKING), reason=LACKING)


@pytest.fixture
def nfs(tmp_path: Path) -> Iterator[NfsServer]:
    """A server of this test's own."""
    with NfsServer(tmp_path / "export", state=tmp_path / "server") as running:
        yield running


def fill(folder: Path, files: int, size: int) -> dict[str, bytes]:
    content = {f"d{i % 4}/e{i % 3}/f{i:03}": random.Random(i).randbytes(size + 17 * i) for i in range(files)}
    for name, data in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return content


def test_a_folder_is_mounted_as_the_server_has_it(shell: Shell, nfs: NfsServer, tmp_path: Path) -> None:
    content = fill(nfs.export / "set", 60, 70_000)
    content["large"] = os.urandom(9_000_000)
    (nfs.export / "set" / "large").write_bytes(content["large"])
    content["ünï\nnew line"] = b"odd"
    (nfs.export / "set" / "ünï\nnew line").write_bytes(b"odd")
    content["not-utf8-\udcff"] = b"names are bytes"
    (nfs.export / "set" / "not-utf8-\udcff").write_bytes(b"names are bytes")
    (nfs.export / "set" / "link").symlink_to("d0")
    (nfs.export / "set" / "empty").mkdir()
    os.mkfifo(nfs.export / "set" / "pipe")
    with shell.mounted(f"{nfs.uri}/set", tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        files = {name: data for name, data in tree_of(mountpoint).items() if not name.startswith("link/")}
        assert files == content
        assert os.readlink(mountpoint / "link") == "d0"
        assert (mountpoint / "empty").is_dir()
        assert not (mountpoint / "pipe").exists()
        assert shell.status(mountpoint)["snapshot"]["rejected_by_rule"] == [["special-file", 1]]
        shell.must("verify", mountpoint)
        assert shell.status(mountpoint)["reads"]["origin_bytes"] == sum(map(len, content.values()))


def test_a_file_that_changed_is_stale_until_the_refresh(shell: Shell, nfs: NfsServer, tmp_path: Path) -> None:
    fill(nfs.export, 4, 1000)
    changed = nfs.export / "d0" / "e0" / "f000"
    with shell.mounted(nfs.uri, tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        changed.write_bytes(b"another version")
        with pytest.raises(OSError, match="Stale") as caught:
            (mountpoint / "d0/e0/f000").read_bytes()
        assert caught.value.errno == errno.ESTALE
        shell.must("refresh", mountpoint)
        assert (mountpoint / "d0/e0/f000").read_bytes() == b"another version"
        # One of the same size and time, as `rsync -t` and `mv` leave it.
        (nfs.export / "new").write_bytes(b"ANOTHER VERSION")
        shutil.copystat(changed, nfs.export / "new")
        (nfs.export / "new").rename(changed)
        assert "1 changed" in shell.must("refresh", mountpoint).talk
        assert (mountpoint / "d0/e0/f000").read_bytes() == b"ANOTHER VERSION"


def test_reads_wait_for_a_server_that_was_killed_and_comes_back(
    shell: Shell, nfs: NfsServer, tmp_path: Path
) -> None:
    content = fill(nfs.export, 80, 400_000)
    early = sorted(content)[:5]
    # The usual patience is a few seconds, and a server takes longer to start on a busy machine.
    settings = shell.home / ".config" / "headrace" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[dataset]\nretries = 20\n")
    with shell.mounted(nfs.uri, tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        for name in early:
            assert (mountpoint / name).read_bytes() == content[name]
        # It answers nothing, and what it has not answered is nowhere else: however fast the reader is, it waits.
        nfs.process.freeze()
        assert shell.status(mountpoint)["cached_files"] < len(content)
        read: dict[str, bytes] = {}
        reader = threading.Thread(target=lambda: read.update(tree_of(mountpoint)))
        reader.start()
        wait_until(
            nfs.waiting_bytes, lambda: f"no request at the server; the reader lives: {reader.is_alive()}"
        )
        nfs.kill()
        assert reader.is_alive(), "all was read without the server"
        nfs.start()
        reader.join(DEADLINE_S)
        assert not reader.is_alive(), f"{len(read)} files"
        assert read == content


def test_a_server_that_is_gone_is_told_in_words(shell: Shell, nfs: NfsServer, tmp_path: Path) -> None:
    (tmp_path / "mnt").mkdir()
    nfs.kill()
    outcome = shell.run("mount", nfs.uri, tmp_path / "mnt", "--cache", f"{tmp_path}/c:1Gi")
    assert outcome.code != 0
    assert f"{nfs.address}:2049" in outcome.stderr
    assert "hint:" in outcome.stderr


def test_an_ordinary_port_is_refused_with_a_hint(shell: Shell, nfs: NfsServer, tmp_path: Path) -> None:
    fill(nfs.export, 2, 10)
    mount = ["mount", nfs.uri, str(tmp_path / "mnt"), "--cache", f"{tmp_path}/c:1Gi"]
    (tmp_path / "mnt").mkdir()
    without = ["setpriv", "--bounding-set", "-net_bind_service", "--inh-caps", "-net_bind_service", HEADRACE]
    done = subprocess.run(
        [*without, *mount], env=shell.full_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "below 1024" in done.stderr


def test_what_the_server_denies_to_a_user_is_told_with_the_user(
    shell: Shell, nfs: NfsServer, tmp_path: Path
) -> None:
    fill(nfs.export, 2, 10)
    nfs.export.chmod(0o700)
    (tmp_path / "mnt").mkdir()
    words = ["--option", "nfs.uid=12345", "--option", "nfs.gid=12345"]
    outcome = shell.run("mount", nfs.uri, tmp_path / "mnt", "--cache", f"{tmp_path}/c:1Gi", *words)
    assert outcome.code != 0
    assert "user 12345" in outcome.stderr
    assert "nfs.uid" in outcome.stderr
    nfs.export.chmod(0o755)
    (nfs.export / "d0").chmod(0o700)
    asker = {"nfs.uid": "12345", "nfs.gid": "12345"}
    with shell.mounted(nfs.uri, tmp_path / "mnt", cache=tmp_path / "c", options=asker) as mountpoint:
        assert os.listdir(mountpoint) == ["d1"]
        assert shell.status(mountpoint)["snapshot"]["rejected"] == [{"key": "d0", "reason": "unreadable"}]
    with shell.mounted(nfs.uri, tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        assert (mountpoint / "d0/e0/f000").is_file()
