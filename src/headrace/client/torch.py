"""PyTorch over a dataset: files by index or as a stream, with the sampler's order told to the engine beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, Sampler, get_worker_info

from headrace.client.dataset import Dataset
from headrace.client.orders import epoch_order, flatten, shard

Transform = Callable[[str, memoryview], Any]
"""Makes a sample of a file's path and its bytes."""


def raw_sample(path: str, content: memoryview) -> tuple[str, bytes]:
    """The sample when no transform is given."""
    return path, bytes(content)


class FileDataset(TorchDataset):
    """A map-style dataset: sample `i` is `transform(path, bytes)` of the i-th file.

    `paths` are those files (all files, sorted, by default). A whole batch is fetched in one call where the loader asks
    for one. Put `PrefetchSampler` around the loader's sampler to have misses fetched ahead of time.
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
        """The samples of a batch."""
        paths = [self.paths[index] for index in indices]
        contents = self.dataset.read_many(paths)
        return [self._transform(path, content) for path, content in zip(paths, contents, strict=True)]


class PrefetchSampler(Sampler):
    """A sampler (or batch sampler) that tells each epoch's order to the engine before the first sample is asked for.

    Wraps the sampler that decides: `DataLoader(files, sampler=PrefetchSampler(RandomSampler(files), files))`, or as
    `batch_sampler=`. Nothing about the order itself changes.
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
        """Passed on to a distributed sampler."""
        self.sampler.set_epoch(epoch)


class IterableFileDataset(IterableDataset):
    """A stream of samples, shared out over ranks and loader workers: each file once an epoch, by one of them.

    Call `set_epoch` before each epoch for another shuffle. Rank 0's worker 0 tells the whole machine's order.
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
            # One worker tells the order of all of this rank: they share one engine, which keeps one order.
            self.dataset.prefetch(self.paths[each] for each in of_rank)
        own = shard(of_rank, index=index, count=count)
        for start in range(0, len(own), self._batch):
            paths = [self.paths[each] for each in own[start : start + self._batch]]
            for path, content in zip(paths, self.dataset.read_many(paths), strict=True):
                yield self._transform(path, content)
