from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.read_order import epoch_order, flatten, shard


@given(st.integers(0, 300), st.integers(), st.integers(0, 5), st.integers(1, 8), st.integers(1, 4))
def test_every_file_is_read_once_an_epoch_by_some_worker(
    count: int, seed: int, epoch: int, ranks: int, workers: int
) -> None:
    read: list[int] = []
    for rank in range(ranks):
        order = epoch_order(count, seed=seed, epoch=epoch, shuffle=True)
        mine = shard(order, index=rank, count=ranks)
        for worker in range(workers):
            read.extend(shard(mine, index=worker, count=workers))
    assert sorted(read) == list(range(count))


def test_shuffles_differ_by_epoch_and_seed_only() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return epoch_order(100, seed=seed, epoch=epoch, shuffle=True)

    assert order(1, 0) == order(1, 0)
    assert len({tuple(order(1, 0)), tuple(order(1, 1)), tuple(order(2, 0)), tuple(range(100))}) == 4
    assert epoch_order(100, seed=1, epoch=1, shuffle=False) == list(range(100))


@pytest.mark.parametrize(("index", "count"), [(-1, 2), (2, 2), (0, 0)])
def test_worker_that_cannot_be_is_refused(index: int, count: int) -> None:
    with pytest.raises(ValueError, match="worker"):
        shard([1], index=index, count=count)


def test_batches_are_flattened_in_reading_order() -> None:
    assert flatten([[3, 1], (2,), 0]) == [3, 1, 2, 0]
