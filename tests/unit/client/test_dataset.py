from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest

import headrace
from headrace.client.dataset import Dataset
from headrace.engine.registry import Registry
from headrace.engine.registry_entry import own_entry
from headrace.errors import ConfigError, DirectoryInsteadError, HeadraceError, MissingFileError, ReadOnlyError
from headrace.settings.environment import Environment

FILES = ["readme.txt", "train/a/two.jpg", "train/one.jpg"]


@pytest.fixture
def dataset(double: SimpleNamespace, data: Path, tmp_path: Path) -> Dataset:
    return headrace.open_dataset(data, cache=f"{tmp_path}/cache:1Gi")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("**", FILES),
        ("**/*.jpg", ["train/a/two.jpg", "train/one.jpg"]),
        ("train/*.jpg", ["train/one.jpg"]),
        ("*", ["readme.txt"]),
        ("train/a/*", ["train/a/two.jpg"]),
        ("/train/[a-b]/t?o.jpg", ["train/a/two.jpg"]),
        ("*.png", []),
    ],
)
def test_files_are_found_by_pattern(dataset: Dataset, pattern: str, found: list[str]) -> None:
    assert dataset.files(pattern) == found


def test_pattern_below_a_folder_that_is_not_there_is_an_error(dataset: Dataset) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        dataset.files("absent/*.jpg")


def test_file_is_a_raw_binary_file(dataset: Dataset) -> None:
    with dataset.open("train/a/two.jpg") as file:
        assert isinstance(file, io.RawIOBase)
        assert (file.readable(), file.seekable(), file.writable(), file.mode) == (True, True, False, "rb")
        assert file.read(6) == b"second"
        assert file.tell() == 6
        assert file.seek(-5, os.SEEK_END) == 7
        assert file.readall() == b"image"
        assert file.read(1) == b""
        assert file.pread(3, 1) == b"eco"
        assert file.pread(100, 100) == b""
        assert file.tell() == 12
        assert file.seek(50) == 50
        assert file.readall() == b""
    with pytest.raises(ValueError, match="closed"):
        file.read(1)


def test_file_reads_lines_through_pythons_own_buffer(dataset: Dataset, data: Path) -> None:
    (data / "train" / "one.jpg").write_bytes(b"a\nb\n!")
    with io.BufferedReader(dataset.open("train/one.jpg")) as file:
        assert list(file) == [b"a\n", b"b\n", b"!"]


@pytest.mark.parametrize("position", [(-1, os.SEEK_SET), (-13, os.SEEK_END), (-1, os.SEEK_CUR)])
def test_position_before_the_start_is_refused(dataset: Dataset, position: tuple[int, int]) -> None:
    with dataset.open("train/a/two.jpg") as file, pytest.raises(OSError, match="before the start"):
        file.seek(*position)


def test_writing_is_refused_with_erofs(dataset: Dataset) -> None:
    with dataset.open("train/one.jpg") as file:
        for write in (lambda: file.write(b"x"), file.truncate):
            with pytest.raises(ReadOnlyError):
                write()


def test_wrong_paths_are_pythons_own_errors(dataset: Dataset) -> None:
    with pytest.raises(MissingFileError):
        dataset.open("absent")
    with pytest.raises(DirectoryInsteadError, match="train is a folder"):
        dataset.open("train")


def test_many_files_land_in_new_memory(dataset: Dataset) -> None:
    assert [bytes(content) for content in dataset.read_many(FILES)] == [b"", b"second image", b"first"]
    assert dataset.read_many([]) == []


def test_many_files_land_in_the_callers_memory(dataset: Dataset) -> None:
    pixels = numpy.zeros((2, 10), dtype=numpy.uint8)
    found = dataset.read_many(FILES, out=pixels)
    assert pixels.tobytes() == b"second imagefirst" + b"\0" * 3
    assert [bytes(content) for content in found] == [b"", b"second image", b"first"]
    found[2][0] = ord("F")
    assert pixels.tobytes()[12:17] == b"First"


def test_each_file_lands_in_its_own_buffer(dataset: Dataset) -> None:
    buffers = [bytearray(0), bytearray(20), memoryview(bytearray(5))]
    assert [len(content) for content in dataset.read_many(FILES, out=buffers)] == [0, 12, 5]
    assert buffers[1] == b"second image" + b"\0" * 8


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (bytearray(16), "holds 16 bytes, the files 17"),
        ([bytearray(1)], "3 files, but 1 buffers"),
        ([bytearray(0), bytearray(11), bytearray(5)], "buffer 1 holds 11 bytes, its file 12"),
        (b"x" * 100, "must be writable"),
    ],
)
def test_memory_that_cannot_take_the_files_is_refused(dataset: Dataset, out: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataset.read_many(FILES, out=out)


def test_order_is_told_to_the_engine(dataset: Dataset, double: SimpleNamespace) -> None:
    dataset.prefetch(path for path in ["train/one.jpg", "/train//a/./two.jpg"])
    assert double.Engine.opened[0].prefetched == [[b"train/one.jpg", b"train/a/two.jpg"]]


def test_warm_up_that_lacks_a_byte_is_an_error(dataset: Dataset, double: SimpleNamespace) -> None:
    assert dataset.warm().complete
    double.Engine.opened[0].job |= {"done_bytes": 9, "errors": [{"path": "a", "message": "gone"}]}
    with pytest.raises(HeadraceError, match="incomplete"):
        dataset.warm(["train"])
    assert double.Engine.opened[0].warmed == [[b""], [b"train"]]


def test_dataset_is_pickled_by_its_arguments(dataset: Dataset) -> None:
    again = pickle.loads(pickle.dumps(dataset))
    assert again.read("train/one.jpg") == b"first"
    assert again.name == dataset.name


def mounted(data: Path, tmp_path: Path) -> Dataset:
    owner = headrace.open_dataset(data, cache=f"{tmp_path}/cache:1Gi", name="shop")
    state = str(owner._opened.engine.state_directory)
    Registry(Environment.current().runtime_directory).add(
        own_entry(name="shop", mountpoint="/mnt/shop", state_directory=state, origins=(), mode="classic")
    )
    return owner


def test_running_mount_is_reached_by_name_and_by_path(
    double: SimpleNamespace, data: Path, tmp_path: Path
) -> None:
    mounted(data, tmp_path)
    by_name = headrace.open_dataset("shop")
    assert by_name.files() == FILES
    assert by_name.mountpoint == Path("/mnt/shop")
    below = headrace.open_dataset("/mnt/shop/train")
    assert below.files() == ["a/two.jpg", "one.jpg"]
    assert below.read("one.jpg") == b"first"
    assert below.files("a/*") == ["a/two.jpg"]
    assert below.mountpoint == Path("/mnt/shop/train")
    assert [engine.role for engine in double.Engine.opened] == ["owner", "attached", "attached"]


def test_settings_of_a_mount_cannot_be_changed_from_outside(
    double: SimpleNamespace, data: Path, tmp_path: Path
) -> None:
    mounted(data, tmp_path)
    with pytest.raises(ConfigError, match="mounted already"):
        headrace.open_dataset("shop", memory="1Gi")


def test_name_that_is_not_mounted_is_an_error(double: SimpleNamespace) -> None:
    with pytest.raises(MissingFileError, match="no dataset named 'shop'"):
        headrace.open_dataset("shop")


def test_unknown_setting_is_an_error_that_names_the_nearest(double: SimpleNamespace, data: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        headrace.open_dataset(data, cach="x")
    assert caught.value.hint == "did you mean 'cache'?"
