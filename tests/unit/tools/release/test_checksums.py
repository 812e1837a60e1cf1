"""The checksums of a release and their signature, by the programs that people check them with."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.release.checksums import sign, write_checksums
from tools.release.commands import ReleaseError

OWNER = "Releases <releases@example.com>"


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    (tmp_path / "b.whl").write_bytes(b"b")
    (tmp_path / "a.tgz").write_bytes(b"a")
    write_checksums(tmp_path)
    return tmp_path


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A keyring with a key of its own. In a short path: the agent's socket lies there."""
    if shutil.which("gpg") is None:
        pytest.skip("gpg is not installed here")
    folder = Path(tempfile.mkdtemp(prefix="gpg-"))
    monkeypatch.setenv("GNUPGHOME", str(folder))
    made = _run(
        folder,
        "gpg",
        "--batch",
        "--passphrase",
        "",
        "--quick-generate-key",
        OWNER,
        "ed25519",
        "sign",
        "never",
    )
    assert made.returncode == 0, made.stderr
    yield folder
    _run(Path(os.sep), "gpgconf", "--kill", "all")
    shutil.rmtree(folder, ignore_errors=True)


def test_the_list_is_one_that_sha256sum_checks_and_a_changed_file_is_found(release: Path) -> None:
    assert _run(release, "sha256sum", "--check", "--strict", "SHA256SUMS").stdout == "a.tgz: OK\nb.whl: OK\n"
    (release / "a.tgz").write_bytes(b"other")
    assert _run(release, "sha256sum", "--check", "SHA256SUMS").returncode == 1


def test_the_list_does_not_list_itself(release: Path) -> None:
    first = (release / "SHA256SUMS").read_text()
    assert write_checksums(release).read_text() == first


def test_the_signature_is_one_that_gpg_checks_and_a_changed_list_is_found(
    release: Path, keyring: Path
) -> None:
    signature = sign(release / "SHA256SUMS", "releases@example.com")
    assert signature.name == "SHA256SUMS.asc"
    assert _run(release, "gpg", "--verify", "SHA256SUMS.asc", "SHA256SUMS").returncode == 0
    (release / "SHA256SUMS").write_text("")
    assert _run(release, "gpg", "--verify", "SHA256SUMS.asc", "SHA256SUMS").returncode == 1


@pytest.mark.parametrize("key", ["nobody@example.com", "", "--export-secret-keys"])
def test_a_key_that_is_not_there_is_an_error(release: Path, keyring: Path, key: str) -> None:
    with pytest.raises(ReleaseError):
        sign(release / "SHA256SUMS", key)
    assert not (release / "SHA256SUMS.asc").exists()
