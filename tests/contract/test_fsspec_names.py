"""Each name that the fsspec file system lists leads to the same file again, through every door that fsspec has."""

from __future__ import annotations

import contextlib
import os
import posixpath
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from property_examples import examples

from headrace.client.filesystem import HeadraceFileSystem

# `data` is what the dataset is called, and `headrace:` begins an address.
PARTS = st.one_of(
    st.sampled_from(
        ["data", "headrace:", "..x", " ", "%2F", "a b", "a#b", "a?b", "a:b", "{1..2}", "~", "-", "é", "日本"]
    ),
    st.text(alphabet="ab .:#%?&=+*[]{}@!'\"\\é日😀", min_size=1, max_size=6).filter(
        lambda part: part not in (".", "..")
    ),
)
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, bytes]:
    """Files by their paths; none is a folder of another."""
    paths = draw(st.sets(PATHS, min_size=1, max_size=12))
    folders = {"/".join(path.split("/")[:depth]) for path in paths for depth in (1, 2)} - paths
    folders |= {
        "/".join(path.split("/")[:depth]) for path in paths for depth in range(1, path.count("/") + 1)
    }
    return {path: os.fsencode(path) * 3 for path in sorted(paths - folders)}


def plant(root: Path, tree: Mapping[str, bytes]) -> None:
    root.mkdir()
    for path, content in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)


@contextlib.contextmanager
def closed_at_end(fs: HeadraceFileSystem) -> Iterator[HeadraceFileSystem]:
    try:
        yield fs
    finally:
        fs.dataset.close()
        HeadraceFileSystem.clear_instance_cache()


def reads(
    fs: HeadraceFileSystem, name: str, options: dict[str, Any], scratch: Path
) -> Iterator[tuple[str, bytes]]:
    """What each door gives for a name that was listed."""
    yield "open", fs.open(name).read()
    yield "cat_file", fs.cat_file(name)
    yield "buffered", fs.open(name, cache_type="readahead", block_size=5).read()
    folder, base = posixpath.split(name)
    yield "folder", DirFileSystem(folder, fs).cat_file(base)
    assert base in [path.strip("/") for path in DirFileSystem(folder, fs).ls("", detail=False)]
    yield "stripped", fs.open(fs._strip_protocol(fs.unstrip_protocol(name))).read()
    is_pattern = bool(set(name) & set("*?["))
    if not is_pattern:
        yield "mapper", fs.get_mapper(fs._parent(name))[posixpath.basename(name)]
    if "::" in name:
        return  # fsspec itself takes that for two addresses
    address = f"headrace://{name}"
    assert fs.unstrip_protocol(name) == address
    with fsspec.open(address, **options) as file:
        yield "address", file.read()
    again, path = fsspec.url_to_fs(address, **options)
    yield "url_to_fs", again.cat_file(path)
    if not is_pattern:
        yield "open_files", fsspec.open_files([address], **options)[0].open().read()
        with fsspec.open(f"simplecache::{address}", headrace=options) as file:
            yield "simplecache", file.read()
        cache = {"cache_storage": str(scratch)}
        with fsspec.open(f"blockcache::{address}", headrace=options, blockcache=cache) as file:
            yield "blockcache", file.read()
        with fsspec.open(f"filecache::{address}", headrace=options, filecache=cache) as file:
            yield "filecache", file.read()
        yield "open_local", Path(fsspec.open_local(f"simplecache::{address}", headrace=options)).read_bytes()


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning"
)  # of fsspec's caches, which leave their files to the garbage
@settings(
    max_examples=examples(12, in_a_soak=200),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(tree=trees())
def test_each_listed_name_opens_to_its_own_bytes_through_every_door(
    tmp_path: Path, tree: dict[str, bytes]
) -> None:
    # Of its own for each example: fsspec keeps its file systems, also those that stand before a closed one.
    place = Path(tempfile.mkdtemp(dir=tmp_path))
    plant(place / "data", tree)
    options = {"origin": str(place / "data"), "cache": f"{place}/cache:1Gi"}
    with closed_at_end(fsspec.filesystem("headrace", **options)) as fs:
        assert fs.find("") == sorted(f"/{path}" for path in tree)
        assert [name for name in fs.glob("**") if fs.isfile(name)] == fs.find("")
        assert sorted(f"{top}/{name}" for top, _, names in fs.walk("") for name in names) == fs.find("")
        for name in fs.find(""):
            assert fs.info(name)["name"] == name
            assert name in fs.ls(fs._parent(name), detail=False)
            for door, content in reads(fs, name, options, place / "scratch"):
                assert content == tree[name[1:]], (door, name)


@pytest.mark.parametrize(
    "pattern", ["headrace:///sub/*.bin", "headrace://sub/*.bin", "sub/*.bin", "/sub/*.bin"]
)
def test_a_file_of_the_same_name_above_is_not_taken_for_it(tmp_path: Path, pattern: str) -> None:
    plant(tmp_path / "data", {"train.bin": b"wrong", "sub/train.bin": b"right"})
    options = {"origin": str(tmp_path / "data"), "cache": f"{tmp_path}/cache:1Gi"}
    with closed_at_end(fsspec.filesystem("headrace", **options)) as fs:
        (name,) = fs.glob(pattern)
        with fsspec.open(f"headrace://{name}", **options) as file:
            assert file.read() == b"right"
