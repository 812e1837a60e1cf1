"""What a person sees after a mistake: the whole of standard error and the exit code, word for word."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.cli.main import main
from headrace.errors import OriginUnreachableError


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an empty mountpoint `mnt` and a full one `full`, as the current folder."""
    (tmp_path / "mnt").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


CASES = [
    (
        ["mount", "s33://bucket", "mnt"],
        3,
        "error: unknown kind of origin 's33://'\nhint: did you mean s3://?\n",
    ),
    (
        ["mount", "s3:/bucket", "mnt"],
        3,
        "error: 's3:/bucket' is not an address\nhint: write s3://bucket\n",
    ),
    (
        ["mount", "bucket/train", "mnt"],
        3,
        "error: 'bucket/train' is not an address\n"
        "hint: a folder is written ./bucket/train, a bucket s3://bucket/train or oss://bucket/train\n",
    ),
    (
        ["mount", "./absent", "mnt"],
        3,
        "error: {here}/absent is not a folder\nhint: check the path of the origin on this machine\n",
    ),
    (
        ["mount", "s3://b", "absent"],
        4,
        "error: the mountpoint {here}/absent is not there\nhint: mkdir -p {here}/absent\n",
    ),
    (
        ["mount", "s3://b", "file"],
        3,
        "error: the mountpoint {here}/file is not a folder\nhint: name an empty folder\n",
    ),
    (
        ["mount", "s3://b", "full"],
        3,
        "error: the mountpoint {here}/full is not empty\n"
        "hint: choose an empty folder, or add --nonempty to hide what is in it while mounted\n",
    ),
    (
        ["mount", "s3://b", "/proc"],
        7,
        "error: something is mounted at /proc already\nhint: headrace unmount /proc, or choose another\n",
    ),
    (
        ["mount", "oss://bucket", "mnt"],
        3,
        "error: an oss:// origin needs the endpoint of its region\n"
        "hint: add --option fs.oss.endpoint=oss-cn-shanghai.aliyuncs.com, or write oss://bucket.ENDPOINT/prefix\n",
    ),
    (
        ["mount", "s3://b", "mnt", "-o", "alluxio.underfs.s3.endpont=x"],
        3,
        "error: unknown option 'alluxio.underfs.s3.endpont' for an origin of kind s3\n"
        "hint: did you mean 'alluxio.underfs.s3.endpoint'?\n",
    ),
    (
        ["mount", "s3://b", "mnt", "--cache", "/ssd"],
        3,
        "error: setting 'cache.0': '/ssd' is not PATH:QUOTA[:MEM|SSD|HDD]\nhint: write for example /ssd/cache:100Gi\n",
    ),
    (
        ["mount", "s3://b", "mnt", "--cache", "{here}/cache:lots"],
        3,
        "error: setting 'cache.0': 'lots' is not a size\nhint: write sizes like 512Mi, 100Gi, 1.5T, 200GB or 50%\n",
    ),
    (
        ["mount", "s3://b", "mnt", "--cache", "{here}/file:1Gi"],
        3,
        "error: cache folder {here}/file is a file\nhint: name a folder\n",
    ),
    (
        ["mount", "s3://b", "mnt", "--cache", "{here}/mnt/cache:1Gi"],
        3,
        "error: {here}/mnt/cache lies below the mountpoint {here}/mnt\nhint: move one of them\n",
    ),
    (
        ["mount", "{here}", "mnt", "--cache", "none"],
        3,
        "error: {here}/private/state/STATE lies below the origin {here}\nhint: move it out of the data\n",
    ),
    (
        ["mount", "s3://b", "mnt", "--secret-file", "absent"],
        3,
        "error: cannot read the secret file {here}/absent: No such file or directory\n",
    ),
    (
        ["mount", "s3://b", "mnt", "--metrics-address", "9100"],
        3,
        "error: '9100' is not HOST:PORT\nhint: write for example 127.0.0.1:9100\n",
    ),
    (
        ["mount", "s3://b", "mnt", "--block-size", "3Mi", "--cache", "none"],
        3,
        "error: setting 'block_size': a block is a power of two from 64Ki to 64Mi\n",
    ),
    (
        ["mount", "s3://b"],
        2,
        "error: missing argument 'ORIGIN...'; or give a --cluster\nhint: headrace mount --help\n",
    ),
    (
        ["mount", "s3://b", "mnt", "--cach", "x"],
        2,
        "error: no such option: --cach (Possible options: --cache)\nhint: headrace mount --help\n",
    ),
    (["mout"], 2, "error: no such command 'mout'. Did you mean 'mount', 'unmount'?\nhint: headrace --help\n"),
    (
        ["unmount", "mnt"],
        4,
        "error: nothing is mounted at {here}/mnt\nhint: see `headrace status` for what is\n",
    ),
    (
        ["warm", "mnt"],
        4,
        "error: nothing is mounted at mnt\n"
        "hint: see `headrace status`; for an origin that is not mounted, give its --cache\n",
    ),
    (
        ["status", "mnt"],
        4,
        "error: nothing is mounted at mnt\nhint: see `headrace status` for what is\n",
    ),
    (["status"], 0, "nothing is mounted\n"),
]


@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="needs /dev/fuse")
@pytest.mark.parametrize(
    ("words", "code", "told"), CASES, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_mistake_is_told_in_words(
    here: Path, capfd: pytest.CaptureFixture[str], words: list[str], code: int, told: str
) -> None:
    assert main([word.replace("{here}", str(here)) for word in words]) == code
    out, err = capfd.readouterr()
    assert out == ""
    err = re.sub(r"/state/\S+ lies", "/state/STATE lies", err)
    assert err == told.replace("{here}", str(here))


def test_credential_on_the_command_line_is_warned_of_and_not_repeated(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [
        "mount",
        "oss://bucket",
        "mnt",
        "-o",
        "fs.oss.accessKeySecret=PLANTED-SECRET",
        "-o",
        "fs.oss.accessKeyId=i",
    ]
    assert main(words) == 3
    err = capfd.readouterr().err
    assert err.startswith("warning: the credential fs.oss.accessKeySecret stands on the command line")
    assert "PLANTED" not in err


def test_unexpected_fault_shows_no_traceback_unless_asked(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("of\nours")

    monkeypatch.setattr("headrace.cli.version.native.version", broken)
    assert main(["version"]) == 1
    plain = capfd.readouterr().err
    assert plain == (
        "error: unexpected RuntimeError: of ours\n"
        "hint: this is a fault of Headrace; HEADRACE_DEBUG=1 shows where; please report it\n"
    )
    monkeypatch.setenv("HEADRACE_DEBUG", "1")
    assert main(["version"]) == 1
    assert "Traceback" in capfd.readouterr().err


def test_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headrace.cli.version.native.version", interrupted)
    assert main(["version"]) == 130
    assert "Traceback" not in capfd.readouterr().err


def test_error_of_the_mount_process_reaches_the_person(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, double: SimpleNamespace
) -> None:
    def fails(*_: object) -> None:
        raise OriginUnreachableError.of("cannot reach http://x", hint="check the endpoint")

    monkeypatch.setattr("headrace.cli.mount.launch_mount", fails)
    assert main(["mount", "s3://b", "mnt", "--cache", "none"]) == 6
    assert capfd.readouterr().err == "error: cannot reach http://x\nhint: check the endpoint\n"


@pytest.mark.parametrize("program", ["headrace.cli.main", "headrace.cli.arena.main"])
def test_a_command_without_standard_streams_ends_as_with_them(program: str) -> None:
    """As a service manager or `ssh -n` may start it."""
    words = f'"$0" -c "import sys; from {program} import main; sys.exit(main())" --help <&- >&-'
    done = subprocess.run(["sh", "-c", words, sys.executable], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
