"""What is pinned, worked out by the newest snapshot."""

from __future__ import annotations

import asyncio

from headrace.control.messages import encode_paths
from headrace.control.pins import PinBoard


def test_nothing_pinned_is_told_apart_from_not_known_yet() -> None:
    async def test() -> None:
        board = PinBoard(lambda paths: [path.hex() for path in paths])
        assert board.pins.version == 0
        await board.resolve()
        known = board.pins
        assert known.version > 0
        assert known.ids == ()
        await board.resolve()
        assert board.pins == known

    asyncio.run(test())


def test_pinning_and_unpinning_below_a_folder_changes_the_version() -> None:
    async def test() -> None:
        board = PinBoard(lambda paths: [path.hex() for path in paths])
        await board.resolve()
        versions = [board.pins.version]
        board.pin(encode_paths([b"a/b", b"ab", b"a"]))
        await board.resolve()
        versions.append(board.pins.version)
        assert board.pins.ids == (b"a".hex(), b"a/b".hex(), b"ab".hex())
        board.unpin([b"a"])
        await board.resolve()
        versions.append(board.pins.version)
        assert board.pins.ids == (b"ab".hex(),)
        assert versions == sorted(set(versions))

    asyncio.run(test())
