from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.tfrecords import records
from headrace.errors import CorruptDataError


def encoded(contents: list[bytes]) -> bytes:
    return b"".join(struct.pack("<QI", len(each), 1) + each + b"tail" for each in contents)


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_records_come_back_as_they_were_written(contents: list[bytes]) -> None:
    assert list(records(io.BytesIO(encoded(contents)), name="x")) == contents


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=5), st.data())
def test_file_that_is_cut_anywhere_gives_whole_records_and_then_an_error(contents: list[bytes], data) -> None:
    whole = encoded(contents)
    cut = data.draw(st.integers(1, len(whole) - 1))
    ends = [len(encoded(contents[:count])) for count in range(len(contents) + 1)]
    read = []
    if cut in ends:
        assert list(records(io.BytesIO(whole[:cut]), name="x")) == contents[: ends.index(cut)]
        return
    with pytest.raises(CorruptDataError, match="x is no TFRecord file"):
        for record in records(io.BytesIO(whole[:cut]), name="x"):
            read.append(record)
    assert read == contents[: len(read)]


def test_absurd_length_takes_no_memory() -> None:
    with pytest.raises(CorruptDataError):
        list(records(io.BytesIO(struct.pack("<QI", 2**63, 0) + b"x"), name="x"))
