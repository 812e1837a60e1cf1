"""tf.data over a dataset. Importing TensorFlow costs some seconds; nothing less shows that its graph calls us."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import headrace

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def tf() -> ModuleType:
    """Loaded when the first of these tests runs: every runner of `make test` collects them, and one runs them."""
    found: ModuleType = pytest.importorskip("tensorflow", reason="needs tensorflow-cpu (make setup)")
    return found


@pytest.fixture(scope="module")
def sources(tf: ModuleType) -> ModuleType:
    """The module under test, which loads TensorFlow, too."""
    return importlib.import_module("headrace.client.tensorflow")


@pytest.fixture
def root(tmp_path: Path, tf: ModuleType) -> Path:
    (tmp_path / "shards").mkdir()
    for shard in range(3):
        with tf.io.TFRecordWriter(str(tmp_path / "shards" / f"{shard}.tfrecord")) as writer:
            for record in range(5):
                writer.write(f"{shard}-{record}")
    return tmp_path / "shards"


@pytest.fixture
def dataset(double: SimpleNamespace, root: Path) -> headrace.Dataset:
    return headrace.open_dataset(root, cache="none")


def test_files_come_with_their_content(sources: ModuleType, dataset: headrace.Dataset, root: Path) -> None:
    source = sources.file_source(dataset, parallel=2)
    assert int(source.cardinality()) == 3
    for path, content in source.as_numpy_iterator():
        assert content == (root / path.decode()).read_bytes()


def test_each_epoch_has_its_own_order_and_tells_it(
    sources: ModuleType, dataset: headrace.Dataset, double: SimpleNamespace
) -> None:
    source = sources.file_source(dataset, dataset.files() * 4, shuffle=True, seed=5)
    epochs = [[path for path, _ in source.as_numpy_iterator()] for _ in range(2)]
    assert epochs[0] != epochs[1]
    assert sorted(epochs[0]) == sorted(epochs[1])
    assert double.Engine.opened[0].prefetched == epochs


def test_records_of_all_shards_are_read(sources: ModuleType, dataset: headrace.Dataset) -> None:
    source = sources.record_source(dataset, dataset.files("*.tfrecord"), cycle=2)
    found = sorted(record.decode() for record in source.as_numpy_iterator())
    assert found == [f"{shard}-{record}" for shard in range(3) for record in range(5)]


def test_records_are_read_through_the_mount_when_there_is_one(
    sources: ModuleType, dataset: headrace.Dataset, root: Path
) -> None:
    mounted = SimpleNamespace(mountpoint=root, prefetch=dataset.prefetch)
    found = [record.decode() for record in sources.record_source(mounted, ["1.tfrecord"]).as_numpy_iterator()]
    assert found == [f"1-{record}" for record in range(5)]


def test_shard_that_is_cut_short_is_an_error_with_its_name(
    tf: ModuleType, sources: ModuleType, dataset: headrace.Dataset, root: Path
) -> None:
    (root / "0.tfrecord").write_bytes((root / "0.tfrecord").read_bytes()[:-3])
    dataset.refresh()
    with pytest.raises(tf.errors.OpError, match=r"0\.tfrecord is no TFRecord file"):
        list(sources.record_source(dataset, ["0.tfrecord"]))
