from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest
from tools import build_site, links

PAGES = ["README.md", "docs/a.md", "docs/b/README.md", "docs/b/c.md"]


def test_sections_show_their_pages_and_a_folder_begins_with_its_readme() -> None:
    shown = build_site.navigation(PAGES, {"One": ("README.md", "docs/a.md"), "Two": ("docs/b",)})
    assert tomllib.loads(f"nav = {shown}")["nav"] == [
        {"One": ["README.md", "docs/a.md"]},
        {"Two": ["docs/b/README.md", "docs/b/c.md"]},
    ]


@pytest.mark.parametrize(
    ("sections", "fault"),
    [
        ({"One": ("README.md", "docs/b")}, "not in one section of tools/build_site.py: docs/a.md"),
        ({"One": ("README.md", "docs/a.md", "docs/b", "docs/b/c.md")}, "not in one section .*: docs/b/c.md"),
        (
            {"One": ("README.md", "docs/a.md", "docs/b", "docs/gone.md")},
            "names docs/gone.md, where no page is",
        ),
    ],
)
def test_a_page_without_its_place_is_a_fault(sections: dict[str, tuple[str, ...]], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        build_site.navigation(PAGES, sections)


def test_every_page_of_the_repository_has_its_place() -> None:
    assert build_site.navigation([str(page.relative_to(links.ROOT)) for page in links.pages(links.ROOT)])


def test_what_pages_lead_to_comes_along_and_a_folder_gets_a_list_of_its_pages(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    (root / "why").mkdir(parents=True)
    (root / "README.md").write_text("[Why](why) ![](picture.svg) [Elsewhere](https://no.where/a.md)\n")
    (root / "picture.svg").write_text("<svg/>")
    (root / "unseen.txt").write_text("")
    (root / "why" / "1.md").write_text("# 1. Because\n")
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    assert build_site.staged(root, tmp_path / "pages") == ["README.md", "why/1.md", "why/README.md"]
    assert (tmp_path / "pages/why/README.md").read_text() == "# Why\n\n- [1. Because](1.md)"
    assert (tmp_path / "pages/picture.svg").exists()
    assert not (tmp_path / "pages/unseen.txt").exists()
