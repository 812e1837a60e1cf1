"""Puts the package of a checkout into a folder for packages, without its native module: install_package.py CHECKOUT TO.

Maturin, which builds the package elsewhere, needs a compiler; the operator's image has no use for what that makes.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any


def install(checkout: Path, to: Path) -> None:
    """The package's sources, and what `importlib.metadata` knows of an installed package."""
    # Servers for tests are no part of what runs elsewhere.
    left_out = shutil.ignore_patterns("__pycache__", "*.so", "testing")
    shutil.copytree(
        checkout / "src" / "headrace", to / "headrace", ignore=left_out, copy_function=shutil.copyfile
    )
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    folder = to / f"{project['name']}-{project['version']}.dist-info"
    folder.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (folder / "METADATA").write_text(metadata)
    (folder / "entry_points.txt").write_text(_entry_points(project))


def _entry_points(project: dict[str, Any]) -> str:
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    return "\n".join(
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for group, entries in groups.items()
    )


if __name__ == "__main__":
    install(Path(sys.argv[1]), Path(sys.argv[2]))
