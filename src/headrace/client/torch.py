"""PyTorch over a dataset: files by index or as a stream, fetched in the sampler's order before they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headrace.client.dataset import Dataset
from headrace.client.read_order import epoch_order, flatten, shard
from headrace.extras import explained

try:
    from torch.utils.data import Dataset as TorchDataset
    from torch.utils.data import IterableDataset, Sampler, get_worker_info
except ModuleNotFoundError as error:
    raise explained(error) from None

__all__ = ["FileDataset", "IterableFileDataset", "PrefetchSampler", "Transform", "raw_sample"]

Transform = Callable[[str, memoryview], Any]
"""Makes a sample of a file's path and its bytes; called in the loader's worker."""


def raw_sample(path: str, content: memoryview) -> tuple[str, bytes]:
    """The sample when no transform is given: the path, and a copy of the bytes."""
    return path, bytes(content)


class FileDataset(TorchDataset):
    """A map-style dataset: sample `i` is `transform(path, bytes)` of the i-th of `paths`.

    `paths` are all files, sorted, by default. A whole batch is fetched in one call where the loader asks for one, as
    PyTorch 2 does. Put `PrefetchSampler` around the loader's sampler to have misses fetched ahead of time. Errors of
    reads are those of `Dataset.read_many`; a loader raises them in the training process.
    """

    def __init__(
        self, dataset: Dataset, paths: Sequence[str] | None = None, *, transform: Transform = raw_sample
    ) -> None:
        self.dataset = dataset
        self.paths = list(dataset.files() if paths is None else paths)
        self._transform = transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The samples of a batch, in the order of `indices`."""
        paths = [self.paths[index] for index in indices]
        contents = self.dataset.read_many(paths)
        return [self._transform(path, content) for path, content in zip(paths, contents, strict=True)]


class PrefetchSampler(Sampler):
    """A sampler (or batch sampler) that announces each epoch's order by `Dataset.prefetch` before the first sample.

    Wraps the sampler that decides: `DataLoader(files, sampler=PrefetchSampler(RandomSampler(files), files))`, or as
    `batch_sampler=`. The order itself stays as it is. The sampler is asked for the whole epoch at once: it must end.
    """

    def __init__(self, sampler: Any, files: FileDataset) -> None:
        self.sampler = sampler
        self._files = files

    def __iter__(self) -> Iterator[Any]:
        items = list(self.sampler)
        paths = self._files.paths
        self._files.dataset.prefetch(paths[index] for index in flatten(items))
        return iter(items)

    def __len__(self) -> int:
        return len(self.sampler)

    def set_epoch(self, epoch: int) -> None:
        """Passed on to the wrapped sampler, such as PyTorch's `DistributedSampler`."""
        self.sampler.set_epoch(epoch)


class IterableFileDataset(IterableDataset):
    """A stream of samples, `transform(path, bytes)`: each file once an epoch, in one of all ranks and loader workers.

    Call `set_epoch` before each epoch for another shuffle. Loader workers take a copy of the stream when they start, so
    `persistent_workers=True` keeps the first epoch's order. Each worker reads `batch` files in one call. Worker 0
    announces the order of its rank by `Dataset.prefetch`. Ranks get the same number of files, or one more. Raises
    `ValueError` unless 0 <= `rank` < `world_size`.
    """

    def __init__(
        self,
        dataset: Dataset,
        paths: Sequence[str] | None = None,
        *,
        transform: Transform = raw_sample,
        shuffle: bool = False,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        batch: int = 16,
    ) -> None:
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} of {world_size}")
        self.dataset = dataset
        self.paths = list(dataset.files() if paths is None else paths)
        self._transform = transform
        self._shuffle = shuffle
        self._seed = seed
        self._rank = rank
        self._world_size = world_size
        self._batch = batch
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Chooses the shuffle of the next epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        return len(range(self._rank, len(self.paths), self._world_size))

    def __iter__(self) -> Iterator[Any]:
        order = epoch_order(len(self.paths), seed=self._seed, epoch=self._epoch, shuffle=self._shuffle)
        of_rank = shard(order, index=self._rank, count=self._world_size)
        worker = get_worker_info()
        index, count = (worker.id, worker.num_workers) if worker else (0, 1)
        if index == 0:
            # One worker announces the order of all of this rank: its workers read it side by side.
            self.dataset.prefetch(self.paths[each] for each in of_rank)
        own = shard(of_rank, index=index, count=count)
        for start in range(0, len(own), self._batch):
            paths = [self.paths[each] for each in own[start : start + self._batch]]
            for path, content in zip(paths, self.dataset.read_many(paths), strict=True):
                yield self._transform(path, content)
