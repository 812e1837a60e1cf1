from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.local.server import log_tail
from headrace.local.server.log_tail import tail


def read(path: Path, lines: int) -> bytes:
    async def run() -> bytes:
        return b"".join([piece async for piece in tail(str(path), lines=lines, goes_on=lambda: False)])

    return asyncio.run(run())


@given(st.lists(st.sampled_from(["", "a", "long line"]), max_size=12), st.booleans(), st.integers(0, 14))
def test_the_last_lines_are_those_that_a_reader_would_count(tmp_path_factory, lines, ends, count) -> None:
    text = "\n".join(lines) + ("\n" if ends and lines else "")
    path = tmp_path_factory.mktemp("log") / "role.log"
    path.write_text(text)
    wanted = text.splitlines(keepends=True)[-count:] if count else []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(log_tail, "_PIECE_BYTES", 4)
        assert read(path, count) == "".join(wanted).encode()


def test_what_is_written_later_is_read_until_the_writer_has_ended(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(log_tail, "_POLL_S", 0.01)
    path = tmp_path / "role.log"
    writing = [True]

    async def run() -> bytes:
        seen = b""
        async for piece in tail(str(path), lines=10, goes_on=lambda: bool(writing)):
            seen += piece
            if seen == b"first\n":
                with path.open("a") as log:
                    log.write("second\n")
                writing.clear()
        return seen

    async def both() -> bytes:
        reading = asyncio.create_task(run())
        await asyncio.sleep(0.03)
        path.write_text("first\n")
        return await reading

    assert asyncio.run(both()) == b"first\nsecond\n"
