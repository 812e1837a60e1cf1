"""The commit that an installation was made of: that of a release, or of the checkout it is run from."""

import subprocess
from pathlib import Path

import pytest

from headrace import provenance

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def _git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    _git(tmp_path, "init", "--quiet")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "--quiet", "--message", "one")
    return tmp_path


def test_a_release_says_what_it_was_built_from(tmp_path: Path) -> None:
    (tmp_path / provenance.COMMIT_FILE).write_text(f"{COMMIT}\n")
    assert provenance.released_commit(tmp_path) == COMMIT


@pytest.mark.parametrize("content", [b"", b"main\n", b"\xff\xfe", COMMIT.upper().encode(), b"0" * 41])
def test_a_note_that_is_no_commit_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / provenance.COMMIT_FILE).write_bytes(content)
    assert provenance.released_commit(tmp_path) is None


def test_a_checkout_is_asked_for_its_commit(checkout: Path) -> None:
    head = _git(checkout, "rev-parse", "HEAD")
    _git(checkout, "tag", "v1.0")
    assert provenance.checked_out_commit(checkout) == head


def test_changed_files_are_told_of(checkout: Path) -> None:
    (checkout / "pyproject.toml").write_text("# changed\n")
    assert provenance.checked_out_commit(checkout) == _git(checkout, "rev-parse", "HEAD") + "-dirty"


def test_a_folder_below_somebody_elses_repository_has_no_commit(checkout: Path) -> None:
    below = checkout / "lib"
    below.mkdir()
    (below / "pyproject.toml").write_text("")
    assert provenance.checked_out_commit(below) is None
    (checkout / "pyproject.toml").unlink()
    assert provenance.checked_out_commit(checkout) is None


def test_without_git_there_is_no_commit(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    assert provenance.checked_out_commit(checkout) is None
