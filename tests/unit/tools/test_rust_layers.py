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


HOLDER = (
    "use super::Folder;\nimpl Folder {{\n    pub(super) fn {name}(&self) {{\n        {body}\n    }}\n}}\n"
)


def spread(a: str, b: str) -> dict[str, str]:
    """A type whose methods `a` and `b` stand in modules of these names, with these bodies."""
    return {
        "store/mod.rs": "pub struct Folder {\n    room: Room,\n}\n",
        "store/a.rs": HOLDER.format(name="a", body=a),
        "store/b.rs": HOLDER.format(name="b", body=b),
    }


@pytest.mark.parametrize(
    ("files", "is_fault"),
    [
        (spread("self.b();", "self.a();"), True),
        (spread("self\n            .b();", "self.a::<u64>();"), True),
        (spread("Self::b(self);", "self.a();"), True),
        (spread("let folder = self.clone(); folder.b();", "self.a();"), True),
        (spread("let (first, folder) = (self.room(1, 2), self.clone()); folder.b();", "self.a();"), True),
        (spread("let (first, folder) = (self.room(1, 2), self.clone()); first.b();", "self.a();"), False),
        (spread("self.b();", ""), False),
        (spread("self.b();", "self.b();"), False),
        (spread("self.room.b();", "self.a();"), False),
        (spread("// self.b();", "self.a();"), False),
    ],
)
def test_methods_of_one_type_use_the_modules_of_those_they_call(
    tmp_path: Path, files: dict[str, str], is_fault: bool
) -> None:
    expected = ["store::a and store::b use each other"] if is_fault else []
    assert rust_layers.faults(tree(tmp_path, files)) == expected


@pytest.mark.parametrize(
    "caller",
    [
        "use super::Folder;\nimpl Drop for Folder {\n    fn drop(&mut self) {\n        self.b();\n    }\n}\n",
        "use super::Folder;\nfn end(folder: &Arc<Folder>) {\n    folder.b();\n}\n",
        "use super::Folder;\nstruct End<'a> {\n    folder: &'a Folder,\n}\nfn end(it: End) {\n    it.folder.b();\n}\n",
    ],
)
def test_traits_functions_and_fields_use_the_modules_of_the_methods_they_call(
    tmp_path: Path, caller: str
) -> None:
    files = spread("self.b();", "super::c::end(self);") | {"store/c.rs": caller}
    assert rust_layers.faults(tree(tmp_path, files)) == ["store::b and store::c use each other"]


def test_types_of_one_name_in_two_modules_are_two_types(tmp_path: Path) -> None:
    own = "struct Shared;\nimpl Shared {{\n    fn {name}(&self) {{\n        self.{other}();\n    }}\n}}\n"
    files = {"store/a.rs": own.format(name="a", other="b"), "store/b.rs": own.format(name="b", other="a")}
    assert rust_layers.faults(tree(tmp_path, files)) == []


def test_types_that_a_folder_exports_are_known_by_the_module_that_defines_them(tmp_path: Path) -> None:
    files = spread("self.b();", "self.a();")
    files["store/mod.rs"] = "mod folder;\npub use folder::Folder;\n"
    files["store/folder.rs"] = "pub struct Folder;\n"
    assert rust_layers.faults(tree(tmp_path, files)) == ["store::a and store::b use each other"]


def test_a_known_pair_is_passed_over_as_long_as_it_is_one(tmp_path: Path) -> None:
    known = frozenset({("store::a", "store::b")})
    assert rust_layers.faults(tree(tmp_path / "both", spread("self.b();", "self.a();")), known) == []
    (gone,) = rust_layers.faults(tree(tmp_path / "one", spread("self.b();", "")), known)
    assert gone.startswith("store::a and store::b do not use each other any more")
