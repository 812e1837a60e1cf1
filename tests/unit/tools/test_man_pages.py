from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tools import man_pages

from headrace.cli.completion.commands import Command, Option
from headrace.cli.verbs import VERBS

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {file.name: text for file, text in man_pages.pages(ROOT).items()}


def test_each_verb_has_a_page(pages: dict[str, str]) -> None:
    assert set(pages) == {"headrace.1", "arena.1", *(f"headrace-{verb}.1" for verb in VERBS)}
    assert all(
        f".SH {part}\n" in pages["headrace-mount.1"] for part in ("NAME", "SYNOPSIS", "OPTIONS", "SEE ALSO")
    )


def test_man_shows_every_page_without_a_warning(pages: dict[str, str], tmp_path: Path) -> None:
    if shutil.which("man") is None or shutil.which("groff") is None:
        pytest.skip("man is not installed here")
    folder = tmp_path / "man1"
    folder.mkdir()
    for name, text in pages.items():
        (folder / name).write_text(text)
    # That of `headrace job` only includes the one of `arena`.
    files = sorted(set(folder.iterdir()) - {folder / "headrace-job.1"})
    shown = subprocess.run(
        ["groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-z", *map(str, files)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert shown.stderr == ""


def test_no_text_is_a_command_of_roff() -> None:
    odd = Command(("headrace", "odd"), ".so /etc/passwd", (Option(("--x-y",), "'quoted' \\(at the start"),))
    text = "\n".join(man_pages._verb(odd))
    assert "\n.so" not in text
    assert "\n'quoted" not in text
    assert "\\e(at the start" in text
    assert "\\-\\-x\\-y" in text
