"""The master's state on disk: the old one or the new one, never a torn one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.control import state_file
from headrace.control.saving import load_state
from headrace.errors import BusyError, CorruptDataError, HeadraceError, UnsupportedError

STATE = {"cluster": "shop", "loads": [{"id": "a", "paths": ["x"]}], "epoch": 41}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert state_file.read(path) is None
    state_file.write(path, STATE)
    assert state_file.read(path) == STATE
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"]


def test_a_file_torn_at_any_byte_is_noticed() -> None:
    raw = state_file.encode(STATE)
    for length in range(len(raw)):
        with pytest.raises(CorruptDataError):
            state_file.decode(raw[:length])


def test_any_flipped_bit_is_noticed() -> None:
    raw = state_file.encode(STATE)
    for position in range(len(raw)):
        for bit in range(8):
            damaged = bytearray(raw)
            damaged[position] ^= 1 << bit
            try:
                decoded = state_file.decode(bytes(damaged))
            except HeadraceError:
                continue
            # What is left is white space between the words of the head.
            assert decoded == STATE


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_anything_else_is_refused_in_words(raw: bytes) -> None:
    with pytest.raises(HeadraceError):
        state_file.decode(raw)


def test_a_crash_while_writing_leaves_the_old_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The draft is cut at every byte, as a crash would, before it gets its name."""
    path = tmp_path / "state.json"
    state_file.write(path, STATE)
    whole = state_file.encode({**STATE, "epoch": 42})
    for length in range(len(whole)):
        (tmp_path / ".state.json.draft").write_bytes(whole[:length])
        assert state_file.read(path) == STATE
    state_file.write(path, {**STATE, "epoch": 42})
    assert state_file.read(path) == {**STATE, "epoch": 42}


def test_the_bytes_are_on_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    real_fsync, real_replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("fsync"), real_fsync(fd))[1])
    monkeypatch.setattr(Path, "replace", lambda self, to: (order.append("rename"), real_replace(self, to))[1])
    state_file.write(tmp_path / "state.json", STATE)
    assert order == ["fsync", "rename", "fsync"]


def test_a_damaged_state_is_set_aside_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(state_file.encode(STATE)[:-20])
    assert load_state(path, 17.0) == {}
    assert (tmp_path / "state.json.damaged-17").exists()
    assert "is damaged: it is cut off" in caplog.text


def test_a_state_of_the_future_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    body = b"{}"
    head = {"magic": state_file.MAGIC, "version": 2, "bytes": len(body), "sha256": "x"}
    path.write_bytes(json.dumps(head).encode() + b"\n" + body + b"\n")
    with pytest.raises(UnsupportedError):
        load_state(path, 17.0)
    assert path.exists()


def test_a_folder_is_for_one(tmp_path: Path) -> None:
    first, second = state_file.Lock(tmp_path, "master"), state_file.Lock(tmp_path, "master")
    with first, pytest.raises(BusyError, match="another master"), second:
        pass
    with state_file.Lock(tmp_path, "master"):
        pass
