"""Builds the pages of the repository as a site with search, in .cache/site/html: `make site`.

Pages keep their places, so that their links hold as they stand: the site's root is that of the repository, and its
first page the README. A page that stands in no section, or a link that the site cannot follow, ends the build.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tools import links

ROOT = Path(__file__).parent.parent
SITE = ROOT / ".cache" / "site"
# What the side shows: pages, or folders with all that is in them.
SECTIONS: Mapping[str, Sequence[str]] = {
    "Begin": (
        "README.md",
        "docs/for-the-ml-engineer.md",
        "docs/for-the-platform-engineer.md",
        "docs/README.md",
        "docs/peers.md",
        "docs/demo.md",
    ),
    "Read and train": (
        "docs/training.md",
        "docs/libraries.md",
        "docs/writing.md",
        "docs/writing-beside-data.md",
        "docs/model-weights.md",
        "docs/submitting.md",
        "docs/following.md",
        "examples",
    ),
    "Install and run": (
        "docs/configuration.md",
        "docs/operations.md",
        "docs/policy.md",
        "SECURITY.md",
        "docs/cluster.md",
        "docs/datasets.md",
        "docs/local.md",
        "docs/kubernetes.md",
        "docs/servers.md",
        "docs/troubleshooting.md",
    ),
    "Promises and measurements": (
        "docs/semantics.md",
        "docs/safety.md",
        "docs/compatibility.md",
        "docs/listeners.md",
        "docs/benchmarks.md",
        "docs/benchmarks-kubernetes.md",
        "docs/benchmarks-mountpoint-s3.md",
        "benchmarks",
    ),
    "Reference": ("docs/reference",),
    "Develop": (
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/releasing.md",
        "docs/glossary.md",
        "findings",
    ),
    "Formats": ("docs/format",),
    "Decisions": ("docs/decisions",),
}
# Headings get the names that GitHub gives them; drawings are drawn.
CONFIGURATION = """\
[project]
site_name = "Headrace"
site_description = "Data acceleration for AI training: a bucket as fast local files"
docs_dir = "pages"
site_dir = "html"
use_directory_urls = false
nav = {navigation}

[project.theme]
font = false
features = ["navigation.indexes", "navigation.top", "search.highlight", "content.code.copy"]

[project.markdown_extensions.tables]
[project.markdown_extensions.pymdownx.highlight]
[project.markdown_extensions.pymdownx.superfences]
custom_fences = [{{name = "mermaid", class = "mermaid", format = "pymdownx.superfences.fence_code_format"}}]
[project.markdown_extensions.toc]
permalink = true
slugify = {{object = "pymdownx.slugs.slugify", kwds = {{case = "lower"}}}}
"""


def staged(root: Path, to: Path) -> list[str]:
    """Copies the pages, and all that they show or lead to, below `to`. Says which pages there are then."""
    shutil.rmtree(to, ignore_errors=True)
    pages = links.pages(root)
    for place in sorted({*pages, *_led_to(pages)}):
        copy = to / place.relative_to(root)
        if place.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(place, copy)
        elif not (place / "README.md").exists():
            copy.mkdir(parents=True, exist_ok=True)
            (copy / "README.md").write_text(_contents(place))
    return sorted(str(page.relative_to(to)) for page in to.rglob("*.md"))


def _led_to(pages: Iterable[Path]) -> Iterable[Path]:
    for page in pages:
        for _, target in links.read(page).links:
            place = (page.parent / urllib.parse.unquote(target.partition("#")[0])).resolve()
            if not links.SCHEME.match(target) and place.exists():
                yield place


def _contents(folder: Path) -> str:
    """What stands for a folder without a page of its own, as a link to a folder shows it elsewhere."""
    titles = {
        page.name: page.read_text().partition("\n")[0].lstrip("# ") for page in sorted(folder.glob("*.md"))
    }
    return "\n".join(
        [f"# {folder.name.capitalize()}", "", *(f"- [{title}]({name})" for name, title in titles.items())]
    )


def navigation(pages: Sequence[str], sections: Mapping[str, Sequence[str]] = SECTIONS) -> str:
    """The sections with their pages, as TOML. Raises `ValueError` for a page in none of them, and for one in two."""
    shown = {
        title: [page for place in places for page in _at(place, pages)] for title, places in sections.items()
    }
    placed = [page for section in shown.values() for page in section]
    wrong = sorted({page for page in pages if placed.count(page) != 1})
    if wrong:
        raise ValueError(f"not in one section of tools/build_site.py: {', '.join(wrong)}")
    return (
        f"[{', '.join(f'{{{json.dumps(title)} = {json.dumps(those)}}}' for title, those in shown.items())}]"
    )


def _at(place: str, pages: Sequence[str]) -> list[str]:
    """The page itself; or what is below a folder, its README first."""
    below = [page for page in pages if page == place or page.startswith(f"{place}/")]
    if not below:
        raise ValueError(f"a section of tools/build_site.py names {place}, where no page is")
    return sorted(below, key=lambda page: (not page.endswith("/README.md") or page.count("/") > 2, page))


def main(program: str) -> int:
    """Builds the site by this program, and says where it is."""
    pages = staged(ROOT, SITE / "pages")
    (SITE / "zensical.toml").write_text(CONFIGURATION.format(navigation=navigation(pages)))
    built = subprocess.run([program, "build", "--clean", "--strict"], cwd=SITE, check=False)
    if built.returncode == 0:
        print(f"{(SITE / 'html' / 'index.html').relative_to(ROOT)} is the first page")
    return built.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
