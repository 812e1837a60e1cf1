from __future__ import annotations

from pathlib import Path

import pytest
from tools import rust_layers


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"store/mod.rs": "use crate::error::Error;", "error.rs": ""}, None),
        (
            {"store/mod.rs": "use crate::transfer::X;", "transfer/mod.rs": ""},
            "store uses transfer, which stands above it",
        ),
        (
            {"store/mod.rs": "use crate::{error, origin::X};", "origin/mod.rs": "", "error.rs": ""},
            "its neighbour",
        ),
        (
            {"store/block.rs": "fn x() { crate::vfs::y() }", "vfs/mod.rs": "", "store/mod.rs": ""},
            "stands above it",
        ),
        (
            {"store/a.rs": "use super::super::vfs::Y;", "vfs/mod.rs": "", "store/mod.rs": ""},
            "stands above it",
        ),
        ({"store/mod.rs": "// use crate::vfs::X;\n/* crate::vfs */", "vfs/mod.rs": ""}, None),
        (
            {"store/a.rs": "use super::b;", "store/b.rs": "use crate::store::a::X;", "store/mod.rs": ""},
            "use each other",
        ),
        ({"store/a.rs": "use super::b;", "store/b.rs": "", "store/mod.rs": "pub mod a;"}, None),
        ({"error.rs": "use crate::ids;", "ids.rs": "use crate::error;"}, "error and ids use each other"),
        ({"snapshot/mod.rs": "use crate::origin::ListedObject;", "origin/mod.rs": ""}, None),
        (
            {"snapshot/mod.rs": "use crate::origin::s3::Client;", "origin/mod.rs": "", "origin/s3.rs": ""},
            "its neighbour",
        ),
        ({"snapshot/mod.rs": "use crate::origin::{ListedObject, ObjectKind};", "origin/mod.rs": ""}, None),
        (
            {"snapshot/mod.rs": "use crate::origin::{ListedObject, s3::X};", "origin/mod.rs": ""},
            "its neighbour",
        ),
        ({"store/mod.rs": "x\n#[cfg(test)]\nmod tests {\nuse crate::vfs::X;\n}\n", "vfs/mod.rs": ""}, None),
        ({"store/mod.rs": "x\n#[cfg(test)]\nuse crate::vfs::X;\n", "vfs/mod.rs": ""}, "above"),
        ({"new/mod.rs": "use crate::error;", "error.rs": ""}, "one has no rank"),
        (
            {
                "store/mod.rs": "use crate::{\n  error::{self, Kind},\n  vfs::{A, B},\n};",
                "vfs.rs": "",
                "error.rs": "",
            },
            "above",
        ),
    ],
)
def test_faults_are_found_and_nothing_else(tmp_path: Path, files: dict[str, str], fault: str | None) -> None:
    found = rust_layers.faults(tree(tmp_path, files))
    if fault is None:
        assert found == []
    else:
        assert len(found) == 1
        assert fault in found[0]
