"""What the parts of a release contain, as lock files and Debian's package manager tell it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from tools.release.ingredients import Ingredient, crates, crates_of_tree, debian_packages_of, python_packages

CHECKOUT = Path(__file__).parents[4]
STATUS = """Package: libc6
Status: install ok installed
Version: 2.36-9+deb12u10
Description: GNU C Library
 Package: nothing

Package: gone
Status: deinstall ok config-files
Version: 1

Package: tini
Status: install ok installed
Version: 0.19.0-1
"""


def test_debian_packages_are_those_that_are_installed() -> None:
    assert debian_packages_of(STATUS) == [
        Ingredient("deb", "libc6", "2.36-9+deb12u10", namespace="debian"),
        Ingredient("deb", "tini", "0.19.0-1", namespace="debian"),
    ]


def test_every_package_of_a_lock_file_is_listed_once(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text(
        "# by somebody==1\nb==2.0 \\\n    --hash=sha256:00\na-c==1!3 ; python_version < '3.12' \\\n"
    )
    assert python_packages(lock) == [Ingredient("pypi", "a-c", "1!3"), Ingredient("pypi", "b", "2.0")]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("serde v1.0.2|MIT OR Apache-2.0", ("serde", "1.0.2", "MIT OR Apache-2.0")),
        ("old v0.1.0|MIT/Apache-2.0", ("old", "0.1.0", "MIT OR Apache-2.0")),
        ("pm v1.0.0 (proc-macro)|MIT", ("pm", "1.0.0", "MIT")),
        ("ours v0.1.0 (/home/x/crates/ours)|Apache-2.0", ("ours", "0.1.0", "Apache-2.0")),
        ("bare v3.0.0|", ("bare", "3.0.0", "")),
    ],
)
def test_a_line_of_cargo_tree_is_read(line: str, found: tuple[str, str, str]) -> None:
    assert list(crates_of_tree(line)) == [found]


def test_the_crates_of_the_engine_are_those_of_the_lock_file_that_it_is_compiled_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # cargo and its crates are in the user's home, and unit tests have another.
    monkeypatch.setenv("HOME", pwd.getpwuid(os.getuid()).pw_dir)
    found = {each.name: each for each in crates(CHECKOUT, "x86_64-unknown-linux-gnu")}
    assert {"opendal", "tokio", "pyo3"} <= set(found)
    assert all(len(each.sha256) == 64 and each.license for each in found.values())
    # Ours have no file of a registry; those of tests and other systems are not in it.
    assert not {"headrace-engine", "proptest", "windows-sys"} & set(found)
