"""The programs of examples/03-training-loops, which docs/training.md quotes, over a real bucket."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import headrace
from headrace.testing.s3_server import S3Server

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "examples" / "03-training-loops"
CLASSES, EACH, SIZE = 4, 12, 3000
FILES = {
    f"train/{label}/{number:03}.bin": random.Random(f"{label} {number}").randbytes(SIZE)
    for label in range(CLASSES)
    for number in range(EACH)
}
BYTES = len(FILES) * SIZE


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a bucket with files in folders of classes, and its keys in the environment."""
    with S3Server(tmp_path / "objects", state=tmp_path / "server") as server:
        for name, content in FILES.items():
            path = tmp_path / "objects" / "images" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for name, value in server.credentials.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_REGION", server.region)
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        yield "s3://images"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch):
    """One of the programs, by its name."""
    monkeypatch.syspath_prepend(PROGRAMS)

    def load(name: str) -> ModuleType:
        return import_module(name)

    return load


@pytest.fixture
def cache(tmp_path: Path) -> str:
    return f"{tmp_path}/cache:1Gi"


def from_storage(output: str) -> list[int]:
    """The bytes that each epoch took from the storage, as the program said."""
    return [
        int(number.replace(",", "")) for number in re.findall(r": ([\d,]+) bytes from the storage", output)
    ]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_torch_run_that_is_resumed_ends_with_the_same_weights(
    data: str, cache: str, program, tmp_path: Path, capfd: pytest.CaptureFixture[str], workers: int
) -> None:
    torch = pytest.importorskip("torch", reason="needs python3-torch (make setup)")
    loop = program("torch_files")
    whole = loop.train(data, cache, tmp_path / "whole.pt", epochs=2, workers=workers, save_every=1)
    assert from_storage(capfd.readouterr().out) == [BYTES, 0], "each byte once, all in the first epoch"
    file = tmp_path / "part.pt"
    loop.train(data, cache, file, epochs=2, workers=workers, save_every=1, stop_after=4)
    assert {key: torch.load(file)[key] for key in ("epoch", "done")} == {"epoch": 1, "done": loop.BATCH}
    resumed = loop.train(data, cache, file, epochs=2, workers=workers)
    for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)


def test_torch_ranks_share_an_epoch(program, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs python3-torch (make setup)")
    loop = program("torch_files")
    monkeypatch.setattr(loop, "WORLD_SIZE", 3)
    orders = []
    for rank in range(3):
        monkeypatch.setattr(loop, "RANK", rank)
        order = loop.EpochOrder(100)
        orders.append(list(order))
        assert len(order) == len(orders[-1])
        order.done = 10
        assert list(order) == orders[-1][10:]
        order.epoch, order.done = 1, 0
        assert list(order) != orders[-1]
    assert sorted(index for order in orders for index in order) == list(range(100))


def test_a_torch_stream_has_each_file_once_an_epoch_in_another_order(data: str, cache: str, program) -> None:
    pytest.importorskip("torch", reason="needs python3-torch (make setup)")
    stream = program("torch_stream")
    with headrace.open_dataset(data, cache=cache) as dataset:
        first, second = stream.epochs_of(dataset, 2)
    assert sorted(map(tuple, first)) == sorted(map(tuple, second)) == sorted((path, SIZE) for path in FILES)
    assert first != second


@pytest.mark.filterwarnings("ignore")
def test_a_tensorflow_run_that_is_resumed_ends_with_the_same_weights(
    data: str, cache: str, program, tmp_path: Path
) -> None:
    pytest.importorskip("tensorflow", reason="needs tensorflow-cpu (make setup)")
    loop = program("tensorflow_files")
    whole = loop.train(data, cache, tmp_path / "whole", epochs=2, save_every=1)
    loop.train(data, cache, tmp_path / "part", epochs=2, save_every=1, stop_after=4)
    resumed = loop.train(data, cache, tmp_path / "part", epochs=2)
    for one, other in zip(whole.weights, resumed.weights, strict=True):
        assert (one.numpy() == other.numpy()).all()


@pytest.mark.filterwarnings("ignore")
def test_keras_fits_over_a_source_for_several_epochs(data: str, cache: str, program) -> None:
    pytest.importorskip("tensorflow", reason="needs tensorflow-cpu (make setup)")
    loop = program("tensorflow_files")
    model = loop.new_model()
    before = [weight.numpy().copy() for weight in model.weights]
    with headrace.open_dataset(data, cache=cache) as dataset:
        loop.fit(dataset, model, epochs=2)
        assert dataset.status().reads.origin_bytes == BYTES
    assert any((weight.numpy() != old).any() for weight, old in zip(model.weights, before, strict=True))


@pytest.mark.filterwarnings("ignore")
def test_tensorflow_reads_all_records_of_shards_in_another_order_each_epoch(
    tmp_path: Path, cache: str, program
) -> None:
    tf = pytest.importorskip("tensorflow", reason="needs tensorflow-cpu (make setup)")
    (tmp_path / "shards").mkdir()
    wanted = set()
    for shard in range(4):
        with tf.io.TFRecordWriter(f"{tmp_path}/shards/train-{shard}.tfrecord") as writer:
            for record in range(20):
                writer.write(f"{shard} {record}".encode())
                wanted.add(f"{shard} {record}".encode())
    reading = program("tensorflow_records")
    with headrace.open_dataset(tmp_path / "shards", cache=cache) as dataset:
        records = reading.records_of(dataset)
        first, second = (list(records.as_numpy_iterator()) for _ in range(2))
    assert set(first) == set(second) == wanted
    assert len(first) == len(second) == len(wanted)
    assert first != second


def test_batches_land_in_memory_of_the_caller(data: str, cache: str, program) -> None:
    batches = program("batches")
    with headrace.open_dataset(data, cache=cache) as dataset:
        paths = dataset.files("train/**")
        found = [bytes(view) for batch in batches.batches_of(dataset, paths, epoch=0) for view in batch]
        again = [bytes(view) for batch in batches.batches_of(dataset, paths, epoch=1) for view in batch]
    assert sorted(found) == sorted(again) == sorted(FILES.values())
    assert found != again


def test_a_program_says_what_came_from_where(
    data: str, cache: str, program, capsys: pytest.CaptureFixture[str]
) -> None:
    with headrace.open_dataset(data, cache=cache) as dataset:
        program("counting").show(dataset)
        assert "cached         0.0% of 144,000 bytes" in capsys.readouterr().out
        dataset.warm()
        dataset.read_many(dataset.files())
        program("counting").show(dataset)
    shown = capsys.readouterr().out
    assert "cached         100.0% of 144,000 bytes" in shown
    assert "hit ratio      100.0%" in shown
    assert "from storage   144,000 bytes in" in shown


def test_the_shortest_way_works_as_it_is_printed(data: str, tmp_path: Path) -> None:
    """The console block of the page, word for word but for addresses and folders."""
    pytest.importorskip("torch", reason="needs python3-torch (make setup)")
    page = (ROOT / "docs" / "training.md").read_text()
    (block,) = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    commands = re.findall(r"^\$ (.+)$", block, re.MULTILINE)
    assert len(commands) > 4
    mountpoint = tmp_path / "mount"
    mountpoint.mkdir()
    places = {
        "s3://bucket/imagenet": data,
        "/mnt/imagenet": str(mountpoint),
        "/ssd/headrace:200Gi": f"{tmp_path}/cache:1Gi",
        "torch_files.py": f"{PROGRAMS}/torch_files.py",
    }
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    said = []
    try:
        for command in commands:
            for printed, real in places.items():
                command = command.replace(printed, real)  # noqa: PLW2901
            done = subprocess.run(
                command.split(),
                cwd=tmp_path,
                env=environment,
                check=False,
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
            said.append(done.stdout)
    finally:
        if mountpoint.is_mount():
            subprocess.run(
                ["headrace", "unmount", "--force", mountpoint], env=environment, check=False, timeout=120
            )
    assert from_storage(said[2]) == [0, 0, 0], "everything was warm"
