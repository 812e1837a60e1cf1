"""Keys that are renewed where they came from are used by what runs already: no new mount, and no failed read."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.testing.processes import free_port
from headrace.testing.s3_client import Credentials

from .harness import HEADRACE, Shell, eventually
from .servers import Bucket

SECOND = Credentials("headrace-second-key", "headrace-second-secret-0123456789")
THIRD = Credentials("headrace-third-key", "headrace-third-secret-0123456789")
Write = Callable[[Credentials], None]


def secret_file(folder: Path, shell: Shell) -> tuple[list[str], Write]:
    path = folder / "secret"

    def write(keys: Credentials) -> None:
        path.write_text(
            json.dumps({"aws.accessKeyId": keys.access_key_id, "aws.secretKey": keys.secret_access_key})
        )
        path.chmod(0o600)

    return ["--secret-file", str(path)], write


def swapped_folder(folder: Path, shell: Shell) -> tuple[list[str], Write]:
    """As Kubernetes changes the files of a Secret: by what a link leads to."""
    path = folder / "secret"
    path.mkdir()

    def write(keys: Credentials) -> None:
        data = folder / "secret" / f"..{keys.access_key_id}"
        data.mkdir()
        (data / "aws.accessKeyId").write_text(keys.access_key_id)
        (data / "aws.secretKey").write_text(keys.secret_access_key)
        (path / "..new").symlink_to(data.name)
        os.rename(path / "..new", path / "..data")
        for name in ("aws.accessKeyId", "aws.secretKey"):
            if not (path / name).is_symlink():
                (path / name).symlink_to(Path("..data") / name)

    return ["--secret-file", str(path)], write


def option_files(folder: Path, shell: Shell) -> tuple[list[str], Write]:
    def write(keys: Credentials) -> None:
        for name, value in (("key", keys.access_key_id), ("secret", keys.secret_access_key)):
            (folder / name).write_text(value)
            (folder / name).chmod(0o600)

    words = ["--option", f"aws.accessKeyId=@{folder}/key", "--option", f"aws.secretKey=@{folder}/secret"]
    return words, write


def profile(folder: Path, shell: Shell) -> tuple[list[str], Write]:
    def write(keys: Credentials) -> None:
        lines = "".join(f"{name.lower()} = {value}\n" for name, value in keys.environment().items())
        (shell.home / ".aws").mkdir(exist_ok=True)
        new = shell.home / ".aws" / "new"
        new.write_text(f"[default]\n{lines}")
        new.rename(shell.home / ".aws" / "credentials")

    return [], write


def program(folder: Path, shell: Shell) -> tuple[list[str], Write]:
    """What a profile's credential_process prints; it is asked again when its keys are refused."""
    (shell.home / ".aws").mkdir(exist_ok=True)
    printed = folder / "printed"
    (shell.home / ".aws" / "credentials").unlink(missing_ok=True)
    (shell.home / ".aws" / "config").write_text(f"[default]\ncredential_process = cat '{printed}'\n")

    def write(keys: Credentials) -> None:
        told = {"Version": 1, "AccessKeyId": keys.access_key_id, "SecretAccessKey": keys.secret_access_key}
        printed.write_text(json.dumps(told))

    return [], write


@pytest.mark.parametrize("place", [secret_file, swapped_folder, option_files, profile, program])
def test_renewed_keys_are_read_again_where_they_came_from(
    shell: Shell, bucket: Bucket, tmp_path: Path, place: Callable[[Path, Shell], tuple[list[str], Write]]
) -> None:
    bucket.fill({"a": b"1", "b": b"2", "c": b"3"})
    (tmp_path / "keys").mkdir()
    words, write = place(tmp_path / "keys", shell)
    write(bucket.server.credentials)
    log = tmp_path / "mount.log"
    with shell.mounted(
        bucket.uri,
        tmp_path / "mnt",
        *words,
        "--log-file",
        log,
        cache=tmp_path / "cache",
        options=bucket.options,
    ) as mountpoint:
        assert (mountpoint / "a").read_bytes() == b"1"
        bucket.server.give_keys(SECOND)
        write(SECOND)
        assert (mountpoint / "b").read_bytes() == b"2"
        bucket.fill({"d": b"4"})
        shell.must("refresh", mountpoint)
        assert (mountpoint / "d").read_bytes() == b"4"
    written = log.read_text()
    assert "its keys have changed" in written
    assert SECOND.secret_access_key not in written


def test_keys_that_come_late_end_the_refusals(shell: Shell, bucket: Bucket, tmp_path: Path) -> None:
    bucket.fill({"a": b"1", "b": b"2"})
    _, write = profile(tmp_path, shell)
    with shell.mounted(
        bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        bucket.server.give_keys(SECOND)
        with pytest.raises(OSError) as refused:
            (mountpoint / "a").read_bytes()
        assert refused.value.errno == errno.EACCES
        write(SECOND)
        assert (mountpoint / "b").read_bytes() == b"2"


def test_a_mount_process_that_takes_anothers_place_begins_with_the_keys_of_now(
    shell: Shell, bucket: Bucket, tmp_path: Path
) -> None:
    bucket.fill({"a": b"1", "b": b"2"})
    _, write = profile(tmp_path, shell)
    with shell.mounted(
        bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        bucket.server.give_keys(SECOND)
        write(SECOND)
        os.kill(shell.status(mountpoint)["pid"], signal.SIGKILL)
        assert (mountpoint / "a").read_bytes() == b"1"
        bucket.server.give_keys(THIRD)
        write(THIRD)
        assert (mountpoint / "b").read_bytes() == b"2"


def test_an_opened_dataset_takes_renewed_keys_up(shell: Shell, bucket: Bucket, tmp_path: Path) -> None:
    """In the SDK's own process, without a mount."""
    bucket.fill({"a": b"1", "b": b"2"})
    words, write = secret_file(tmp_path, shell)
    write(bucket.server.credentials)
    code = f"""
import sys, headrace
with headrace.open_dataset({bucket.uri!r}, cache={str(tmp_path / "cache") + ":1Gi"!r},
                   options={bucket.options!r}, secret_file={words[1]!r}) as dataset:
    for line in sys.stdin:
        print(dataset.read(line.strip()).decode(), flush=True)
"""
    reader = subprocess.Popen(
        [sys.executable, "-c", code],
        env=shell.full_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert reader.stdin and reader.stdout
    with reader:
        print("a", file=reader.stdin, flush=True)
        assert reader.stdout.readline() == "1\n"
        bucket.server.give_keys(SECOND)
        write(SECOND)
        print("b", file=reader.stdin, flush=True)
        assert reader.stdout.readline() == "2\n"
        reader.stdin.close()
        assert reader.wait(30) == 0


@contextmanager
def role(shell: Shell, name: str, config: Path, text: str) -> Iterator[None]:
    config.write_text(text)
    with config.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(
            [HEADRACE, name, "--config", str(config)], env=shell.full_environment(), stderr=log
        )
        with process:
            try:
                yield
            finally:
                process.terminate()
                assert process.wait(30) == 0, config.with_suffix(".log").read_text()


def test_a_master_its_worker_and_a_mount_take_renewed_keys_and_a_renewed_token_up(
    shell: Shell, bucket: Bucket, tmp_path: Path
) -> None:
    """Their endpoint names no scheme, as people write it for JindoFS. Costs three seconds: three roles begin."""
    bucket.fill({"a": b"1", "b": b"2"})
    words, write = secret_file(tmp_path, shell)
    write(bucket.server.credentials)
    endpoint = bucket.server.endpoint.removeprefix("http://")
    master = f"127.0.0.1:{free_port()}"
    common = f"""origins:
- origin: {bucket.uri}
  secret_file: {words[1]}
  options: {{fs.s3.endpoint: "{endpoint}"}}
"""
    token = tmp_path / "m" / "token"
    url = f"http://{master}"
    of_master = f"listen: {master}\nstate_directory: {tmp_path}/m\n{common}"
    of_worker = f"""master: {url}
listen: 127.0.0.1:0
state_directory: {tmp_path}/w
cache: ["{tmp_path}/cache:100Mi"]
token_file: {token}
{common}"""
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    with role(shell, "master", tmp_path / "master.yaml", of_master):
        eventually(token.exists)
        with role(shell, "worker", tmp_path / "worker.yaml", of_worker):
            shell.must("mount", "--cluster", url, mountpoint, "--token-file", token)
            try:
                assert (mountpoint / "a").read_bytes() == b"1"
                bucket.server.give_keys(SECOND)
                write(SECOND)
                assert (mountpoint / "b").read_bytes() == b"2"
                bucket.fill({"c": b"3"})
                shell.must("refresh", "--cluster", url, "--token-file", token)
                eventually((mountpoint / "c").exists)
                assert (mountpoint / "c").read_bytes() == b"3"
                token.write_text("a token that is another one, for all of them")
                bucket.fill({"d": b"4"})
                shell.must("refresh", "--cluster", url, "--token-file", token)
                eventually((mountpoint / "d").exists)
                assert (mountpoint / "d").read_bytes() == b"4"
            finally:
                shell.run("unmount", "--force", mountpoint)
