"""The sources of a release: those of a commit, and nothing else of the checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tools.release.commands import ReleaseError
from tools.release.sources import sources_of

from headrace.provenance import released_commit

VERSIONED = {
    "pyproject.toml": '[project]\nversion = "{package}"\n',
    "Cargo.toml": '[workspace.package]\nversion = "{engine}"\n',
    "deploy/chart/Chart.yaml": "version: {chart}\nappVersion: {chart}\n",
    "src/headrace/__init__.py": "",
}


def _git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def _checkout(folder: Path, package: str = "1.2.3", engine: str = "1.2.3", chart: str = "1.2.3") -> Path:
    for name, content in VERSIONED.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content.format(package=package, engine=engine, chart=chart))
    _git(folder, "init", "--quiet")
    _git(folder, "add", ".")
    _git(folder, "commit", "--quiet", "--message", "one")
    return folder


def test_a_release_has_the_files_of_the_commit_alone_and_says_which_it_is(tmp_path: Path) -> None:
    checkout = _checkout(tmp_path)
    (checkout / "src" / "headrace" / "_native.so").write_bytes(b"built here")
    with sources_of(checkout) as sources:
        assert sources.commit == _git(checkout, "rev-parse", "HEAD")
        assert str(sources.committed_s) == _git(checkout, "log", "-1", "--format=%ct")
        assert sources.version == "1.2.3"
        assert released_commit(sources.folder / "src" / "headrace") == sources.commit
        assert not (sources.folder / "src" / "headrace" / "_native.so").exists()
        assert not sources.folder.is_relative_to(checkout)
    assert not sources.folder.exists()


def test_a_release_of_files_that_are_not_committed_is_refused(tmp_path: Path) -> None:
    checkout = _checkout(tmp_path)
    (checkout / "Cargo.toml").write_text("changed")
    with pytest.raises(ReleaseError, match="commit them"), sources_of(checkout):
        pass


@pytest.mark.parametrize("other", ["package", "engine", "chart"])
def test_parts_of_different_versions_are_refused(tmp_path: Path, other: str) -> None:
    checkout = _checkout(tmp_path, **{other: "1.2.4"})
    with pytest.raises(ReleaseError, match=r"1\.2\.3.*1\.2\.4"), sources_of(checkout):
        pass
