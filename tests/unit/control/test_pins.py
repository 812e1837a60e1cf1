"""What is pinned, worked out by the newest snapshot."""

from __future__ import annotations

import asyncio

from headrace.control.messages import PIN_BYTES, Pins, encode_paths
from headrace.control.pins import PinBoard


def test_nothing_pinned_is_told_apart_from_not_known_yet() -> None:
    async def test() -> None:
        board = PinBoard(b"".join)
        assert board.pins.version == 0
        await board.resolve()
        known = board.pins
        assert known.version > 0
        assert known.ids == b""
        await board.resolve()
        assert board.pins == known

    asyncio.run(test())


def test_pinning_and_unpinning_below_a_folder_changes_the_version() -> None:
    async def test() -> None:
        board = PinBoard(b"".join)
        await board.resolve()
        versions = [board.pins.version]
        board.pin(encode_paths([b"a/b", b"ab", b"a"]))
        await board.resolve()
        versions.append(board.pins.version)
        assert board.pins.ids == b"aa/bab"
        board.unpin([b"a"])
        await board.resolve()
        versions.append(board.pins.version)
        assert board.pins.ids == b"ab"
        assert versions == sorted(set(versions))

    asyncio.run(test())


def test_an_answer_holds_some_of_the_pinned_files_however_many_there_are() -> None:
    pins = Pins(version=1, ids=bytes(PIN_BYTES) * 4_000_000)
    page = pins.page(0)
    assert page.total == 4_000_000
    assert len(page.model_dump_json()) < 16 << 20
    assert pins.page(3_999_999).digits == "00" * PIN_BYTES
    assert pins.page(4_000_000).digits == ""
