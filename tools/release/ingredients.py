"""What the parts of a release contain: crates, Python packages and packages of Debian, each with its version.

Each list is read from what the part is built by: the lock files, and the records of Debian's own package manager.
"""

from __future__ import annotations

import json
import re
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.release.commands import ReleaseError, output_of


class Ingredient(NamedTuple):
    """A package of somebody else, as a bill of materials names it."""

    kind: str
    """The type of its package URL: cargo, pypi or deb."""
    name: str
    version: str
    license: str = ""
    sha256: str = ""
    """Of the file that was downloaded, where it is one."""
    namespace: str = ""


def crates(sources: Path, target: str) -> list[Ingredient]:
    """The crates that are compiled into the engine for a target, without those that only its build runs."""
    command = ["cargo", "tree", "--locked", "--package", "headrace-python", "--target", target]
    command += ["--edges", "normal,no-proc-macro", "--prefix", "none", "--no-dedupe", "--format", "{p}|{l}"]
    checksums = _checksums(sources / "Cargo.lock")
    found = {
        Ingredient("cargo", name, version, license=terms, sha256=checksums[name, version])
        for name, version, terms in crates_of_tree(output_of(command, folder=sources))
        if (name, version) in checksums
    }
    return sorted(found)


def crates_of_tree(told: str) -> Iterator[tuple[str, str, str]]:
    """Name, version and license of each line of `cargo tree`."""
    for line in told.splitlines():
        if match := re.match(r"(\S+) v(\S+?)(?: \([^)]*\))*\|(.*)$", line):
            yield match[1], match[2], match[3].replace("/", " OR ") if " " not in match[3] else match[3]


def _checksums(lock: Path) -> dict[tuple[str, str], str]:
    """Those of the crates of registries: crates of the workspace have none."""
    packages = tomllib.loads(lock.read_text())["package"]
    return {(each["name"], each["version"]): each["checksum"] for each in packages if "checksum" in each}


def python_packages(lock: Path) -> list[Ingredient]:
    """The packages of a lock file. Which of the files that it names was installed, it leaves to the machine."""
    pinned = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock.read_text(), re.M)
    return sorted(Ingredient("pypi", name, version) for name, version in pinned)


def debian_packages(root: Path) -> list[Ingredient]:
    """The packages of a Debian root, a tar, as its package manager lists them."""
    with tarfile.open(root) as files:
        status = files.extractfile("var/lib/dpkg/status")
        if status is None:
            raise ReleaseError(f"{root.name} has no list of its packages")
        return debian_packages_of(status.read().decode())


def debian_packages_of(status: str) -> list[Ingredient]:
    """The packages of dpkg's file `status` that are installed."""
    paragraphs = (dict(re.findall(r"^([\w-]+): (.*)$", part, re.M)) for part in status.split("\n\n"))
    return sorted(
        Ingredient("deb", each["Package"], each["Version"], namespace="debian")
        for each in paragraphs
        if each.get("Status", "").endswith(" installed")
    )


def as_json(ingredients: list[Ingredient]) -> str:
    """The same list in one form, for a digest of it."""
    return json.dumps([each._asdict() for each in ingredients], sort_keys=True)
