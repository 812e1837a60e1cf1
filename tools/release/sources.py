"""What a release is made of: the files of one commit, as git has them, and nothing else that lies in the checkout."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.release.commands import ReleaseError, output_of

from headrace.provenance import COMMIT_FILE


@dataclass(frozen=True, slots=True)
class Sources:
    """The files of a commit in a folder of their own, whose path is another one each time."""

    folder: Path
    commit: str
    committed_s: int
    """When the commit was made, in seconds since 1970: the only time that a release knows."""
    version: str


@contextmanager
def sources_of(checkout: Path) -> Iterator[Sources]:
    """The sources of the checkout's commit. Raises `ReleaseError` where files differ from it: the tools that make the
    release are among them.
    """
    if output_of(["git", "status", "--porcelain", "--untracked-files=no"], folder=checkout):
        raise ReleaseError("files differ from the last commit, and a release is one of a commit: commit them")
    commit, committed_s = output_of(["git", "log", "-1", "--format=%H %ct"], folder=checkout).split()
    with TemporaryDirectory(prefix="headrace-release-") as made:
        folder = Path(made) / "headrace"
        _unpack(checkout, commit, folder)
        (folder / "src" / "headrace" / COMMIT_FILE).write_text(f"{commit}\n")
        yield Sources(folder, commit, int(committed_s), _version(folder))


def _unpack(checkout: Path, commit: str, to: Path) -> None:
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=checkout, capture_output=True, check=True
    )
    to.mkdir()
    subprocess.run(["tar", "--extract", "--directory", str(to)], input=archive.stdout, check=True)


def _version(folder: Path) -> str:
    """The one version: package, engine and chart have to name the same."""
    package = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["version"]
    engine = tomllib.loads((folder / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    chart = (folder / "deploy" / "chart" / "Chart.yaml").read_text().splitlines()
    named = {
        package,
        engine,
        *(line.split()[1] for line in chart if line.startswith(("version:", "appVersion:"))),
    }
    if len(named) != 1:
        raise ReleaseError(
            f"pyproject.toml, Cargo.toml and Chart.yaml name several versions: {sorted(named)}"
        )
    return str(package)
