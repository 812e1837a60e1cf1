from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import headrace


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    """Loaded when the first of these tests runs: every runner of `make test` collects them, and one runs them."""
    found: ModuleType = pytest.importorskip("torch", reason="needs python3-torch (make setup)")
    return found


@pytest.fixture(scope="module")
def loading(torch: ModuleType) -> ModuleType:
    """PyTorch's own loaders and samplers."""
    return importlib.import_module("torch.utils.data")


@pytest.fixture(scope="module")
def sources(torch: ModuleType) -> ModuleType:
    """The module under test, which loads PyTorch, too."""
    return importlib.import_module("headrace.client.torch")


@pytest.fixture
def dataset(double: SimpleNamespace, tmp_path: Path) -> headrace.Dataset:
    (tmp_path / "images").mkdir()
    for number in range(20):
        (tmp_path / "images" / f"{number:02}").write_bytes(bytes([number]))
    return headrace.open_dataset(tmp_path / "images", cache="none")


def value(_path: str, content: memoryview) -> int:
    return content[0]


@pytest.mark.parametrize("workers", [0, 2])
def test_loader_reads_each_file_once_in_forked_workers_too(
    sources: ModuleType, loading: ModuleType, torch: ModuleType, dataset: headrace.Dataset, workers: int
) -> None:
    files = sources.FileDataset(dataset, transform=value)
    loader = loading.DataLoader(
        files,
        batch_size=4,
        num_workers=workers,
        sampler=sources.PrefetchSampler(loading.SequentialSampler(files), files),
    )
    assert torch.cat(list(loader)).tolist() == list(range(20))


def test_sampler_tells_each_epochs_order(
    sources: ModuleType,
    loading: ModuleType,
    torch: ModuleType,
    dataset: headrace.Dataset,
    double: SimpleNamespace,
) -> None:
    files = sources.FileDataset(dataset, transform=value)
    generator = torch.Generator().manual_seed(3)
    sampler = sources.PrefetchSampler(loading.RandomSampler(files, generator=generator), files)
    loader = loading.DataLoader(files, batch_size=5, sampler=sampler)
    epochs = [torch.cat(list(loader)).tolist() for _ in range(2)]
    assert epochs[0] != epochs[1]
    told = double.Engine.opened[0].prefetched
    assert [[int(path) for path in order] for order in told] == epochs
    assert len(sampler) == 20


def test_batch_sampler_is_understood(
    sources: ModuleType, loading: ModuleType, dataset: headrace.Dataset, double: SimpleNamespace
) -> None:
    files = sources.FileDataset(dataset, transform=value)
    batches = sources.PrefetchSampler(
        loading.BatchSampler(loading.SequentialSampler(files), 8, drop_last=False), files
    )
    assert [len(batch) for batch in loading.DataLoader(files, batch_sampler=batches)] == [8, 8, 4]
    assert len(double.Engine.opened[0].prefetched[0]) == 20


def test_sample_without_a_transform_is_path_and_bytes(sources: ModuleType, dataset: headrace.Dataset) -> None:
    assert sources.FileDataset(dataset)[3] == ("03", b"\x03")
    assert sources.FileDataset(dataset, ["05"])[0] == ("05", b"\x05")


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [0, 3])
def test_stream_gives_each_file_once_over_ranks_and_workers(
    sources: ModuleType, loading: ModuleType, dataset: headrace.Dataset, workers: int
) -> None:
    found: list[int] = []
    for rank in range(2):
        stream = sources.IterableFileDataset(
            dataset, transform=value, shuffle=True, rank=rank, world_size=2, batch=3
        )
        loader = loading.DataLoader(stream, batch_size=None, num_workers=workers)
        mine = [int(sample) for sample in loader]
        assert len(mine) == len(stream) == 10
        found += mine
    assert sorted(found) == list(range(20))


def test_stream_changes_with_the_epoch_and_tells_its_order(
    sources: ModuleType, dataset: headrace.Dataset, double: SimpleNamespace
) -> None:
    stream = sources.IterableFileDataset(dataset, transform=value, shuffle=True, seed=1)
    first = list(stream)
    stream.set_epoch(1)
    second = list(stream)
    assert first != second
    assert [[int(path) for path in order] for order in double.Engine.opened[0].prefetched] == [first, second]


def test_impossible_rank_is_refused(sources: ModuleType, dataset: headrace.Dataset) -> None:
    with pytest.raises(ValueError, match="rank 2 of 2"):
        sources.IterableFileDataset(dataset, rank=2, world_size=2)
