from __future__ import annotations

import asyncio
import hashlib
import os
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest

from headrace.client.filesystem import HeadraceFileSystem
from headrace.errors import ConfigError, ReadOnlyError


def make(data: Path, tmp_path: Path, **given: Any) -> HeadraceFileSystem:
    return HeadraceFileSystem(str(data), cache=f"{tmp_path}/cache:1Gi", skip_instance_cache=True, **given)


@pytest.fixture
def fs(double: SimpleNamespace, data: Path, tmp_path: Path) -> HeadraceFileSystem:
    return make(data, tmp_path)


def test_what_stands_behind_the_protocol_is_a_path() -> None:
    assert fsspec.get_filesystem_class("headrace") is HeadraceFileSystem
    strip = HeadraceFileSystem._strip_protocol
    for address, path in {
        "headrace://shop/a/b": "shop/a/b",
        "headrace:///a//b/": "/a/b",
        "headrace://shop/": "shop",
        "headrace://": "",
        "/a/": "/a",
        "//a": "/a",
        "a#b %2F ?x": "a#b %2F ?x",
        "/": "",
        "": "",
    }.items():
        assert strip(address) == path == strip(path)


def test_a_file_system_whose_dataset_was_closed_is_made_anew(
    double: SimpleNamespace, data: Path, tmp_path: Path
) -> None:
    options = {"origin": str(data), "cache": f"{tmp_path}/cache:1Gi"}
    first = fsspec.filesystem("headrace", **options)
    assert fsspec.filesystem("headrace", **options) is first
    first.dataset.close()
    with pytest.raises(ValueError, match="is closed"):
        first.cat_file("readme.txt")
    second = fsspec.filesystem("headrace", **options)
    assert second.cat_file("readme.txt") == (data / "readme.txt").read_bytes()
    # Closing is harmless where that was done before, also to the one that came after it.
    first.dataset.close()
    assert fsspec.filesystem("headrace", **options) is second
    second.dataset.close()


def test_names_begin_as_what_was_asked_for_did(fs: HeadraceFileSystem) -> None:
    for folder in ("train", "/train", "headrace://train", "headrace:///train/"):
        path = HeadraceFileSystem._strip_protocol(folder)
        assert fs.ls(folder, detail=False) == [f"{path}/a", f"{path}/one.jpg"]
        assert fs.find(folder) == fs.glob(f"{folder}/**/*.jpg") == [f"{path}/a/two.jpg", f"{path}/one.jpg"]
        assert fs.unstrip_protocol(folder) == "headrace:///train"
    for root in ("", "/", "headrace://", "headrace:///"):
        assert (
            fs.find(root) == fs.glob(f"{root}**/*.*") == ["/readme.txt", "/train/a/two.jpg", "/train/one.jpg"]
        )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"origin": "/a", "mountpoint": "/b"}, "by origin and mountpoint"),
        ({"name": "a", "mountpoint": "/b"}, "by mountpoint and name"),
        ({"cache": "/c:1Gi"}, "give cache, but no origin"),
        ({"settings": {"memory": "1Gi"}}, "give memory, but no origin"),
    ],
)
def test_options_that_name_no_dataset_or_two_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        HeadraceFileSystem(**options, skip_instance_cache=True)


def test_without_options_a_path_begins_with_the_name_of_a_mount(private_environment: Path) -> None:
    fs = HeadraceFileSystem(skip_instance_cache=True)
    assert (fs.ls(""), fs.isdir(""), fs.find("")) == ([], True, [])
    with pytest.raises(FileNotFoundError, match="no dataset named 'shop' is mounted here"):
        fs.info("headrace://shop/a/b")
    with pytest.raises(ConfigError, match="headrace:///a names no dataset"):
        fs.info("headrace:///a")
    with pytest.raises(IsADirectoryError):
        fs.open("headrace://")
    with pytest.raises(ConfigError, match="all mounted datasets"):
        _ = fs.dataset


def test_url_opens_through_storage_options(double: SimpleNamespace, data: Path, tmp_path: Path) -> None:
    options = {"origin": str(data), "cache": f"{tmp_path}/cache:1Gi"}
    with fsspec.open("headrace:///train/one.jpg", "rb", **options) as file:
        assert file.read() == b"first"
    with fsspec.open("headrace:///train/one.jpg", "rt", **options) as file:
        assert file.read() == "first"


def test_names_and_kinds(fs: HeadraceFileSystem) -> None:
    assert fs.ls("", detail=False) == ["/readme.txt", "/train"]
    assert fs.ls("/train/one.jpg", detail=False) == ["/train/one.jpg"]
    assert fs.info("train")["type"] == "directory"
    info = fs.info("headrace:///train/one.jpg")
    assert (info["name"], info["size"], info["type"]) == ("/train/one.jpg", 5, "file")
    assert (fs.exists("train"), fs.exists("train/one.jpg/x"), fs.isdir("train"), fs.isfile("train")) == (
        True,
        False,
        True,
        False,
    )
    with pytest.raises(FileNotFoundError):
        fs.ls("absent")


def test_walks_and_patterns_are_fsspecs_own(fs: HeadraceFileSystem) -> None:
    assert fs.find("") == ["/readme.txt", "/train/a/two.jpg", "/train/one.jpg"]
    assert fs.glob("train/**/*.jpg") == ["train/a/two.jpg", "train/one.jpg"]
    assert fs.du("") == 17
    assert [parent for parent, _, _ in fs.walk("")] == ["", "/train", "/train/a"]


def test_ranges(fs: HeadraceFileSystem) -> None:
    assert fs.cat_file("train/a/two.jpg") == b"second image"
    assert fs.cat_file("train/a/two.jpg", -5) == b"image"
    assert fs.cat_file("train/a/two.jpg", 1, -6) == b"econd"
    assert fs.cat_file("train/a/two.jpg", 100, 200) == b""
    assert fs.cat(["train/one.jpg", "readme.txt"]) == {"train/one.jpg": b"first", "readme.txt": b""}
    assert fs.cat_ranges(["train/one.jpg"] * 2, [0, 2], [1, 4]) == [b"f", b"rs"]
    assert fs.cat_ranges(["train/one.jpg", "train/a/two.jpg"], 0, 2) == [b"fi", b"se"]
    assert fs.tail("train/one.jpg", 2) == b"st"
    assert fs.read_block("train/a/two.jpg", 7, 5) == b"image"


def test_range_that_fails_does_not_take_the_others_along(fs: HeadraceFileSystem) -> None:
    first, second = fs.cat_ranges(["train/one.jpg", "absent"], 0, 5)
    assert first == b"first"
    assert isinstance(second, FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["absent"], 0, 5, on_error="raise")


def test_key_changes_with_the_content(fs: HeadraceFileSystem, data: Path) -> None:
    before = fs.ukey("train/one.jpg")
    assert fs.ukey("train/one.jpg") == before
    (data / "train" / "one.jpg").write_bytes(b"longer content")
    fs.dataset.refresh()
    assert fs.ukey("train/one.jpg") != before


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("rm", ["a"]),
        ("mkdir", ["a"]),
        ("makedirs", ["a"]),
        ("touch", ["a"]),
        ("pipe", ["a", b""]),
        ("pipe_file", ["a", b""]),
        ("put", ["a", "b"]),
        ("mv", ["a", "b"]),
        ("copy", ["a", "b"]),
        ("rename", ["a", "b"]),
        ("write_text", ["a", "b"]),
        ("rmdir", ["a"]),
        ("open", ["a", "wb"]),
        ("open", ["a", "r+b"]),
        ("open", ["a", "ab"]),
    ],
)
def test_every_way_to_write_is_refused(fs: HeadraceFileSystem, name: str, arguments: list[Any]) -> None:
    with pytest.raises(ReadOnlyError):
        getattr(fs, name)(*arguments)


def test_coroutines_read_the_same(double: SimpleNamespace, data: Path, tmp_path: Path) -> None:
    async def read() -> tuple[Any, ...]:
        fs = make(data, tmp_path, asynchronous=True)
        with pytest.raises(ReadOnlyError):
            await fs._pipe_file("a", b"")
        return (
            await fs._ls("train", detail=False),
            await fs._cat_file("train/one.jpg", 1, 3),
            (await fs._info("train/one.jpg"))["size"],
            await fs._find(""),
            await fs._cat_ranges(["train/one.jpg"], [0], [2]),
            await fs._exists("absent"),
        )

    assert asyncio.run(read()) == (
        ["train/a", "train/one.jpg"],
        b"ir",
        5,
        ["/readme.txt", "/train/a/two.jpg", "/train/one.jpg"],
        [b"fi"],
        False,
    )


def test_file_system_is_pickled_by_its_arguments(fs: HeadraceFileSystem) -> None:
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat_file("train/one.jpg") == b"first"


def test_forked_child_reads_and_walks(fs: HeadraceFileSystem) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = f"{fs.cat_file('train/one.jpg')} {fs.find('train')}"
        except BaseException as error:
            text = repr(error)
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        assert file.read() == "b'first' ['train/a/two.jpg', 'train/one.jpg']"
    os.waitpid(child, 0)


def test_copies_to_this_machine(fs: HeadraceFileSystem, data: Path, tmp_path: Path) -> None:
    (data / "large").write_bytes(os.urandom(40 << 20))
    fs.dataset.refresh()
    fs.get("", str(tmp_path / "copy"), recursive=True)
    for file in ("large", "readme.txt", "train/a/two.jpg"):
        wanted, found = (
            hashlib.sha256((root / file).read_bytes()).digest() for root in (data, tmp_path / "copy")
        )
        assert wanted == found
