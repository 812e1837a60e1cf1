"""The driver's memory is whole, or it is not believed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.csi.state import State, dump, restore
from headrace.csi.volume_requests import Publication
from headrace.errors import CorruptDataError, UnsupportedError

ONE = Publication(
    volume_id="data", target="/pods/1/mount", dataset="default/data", sub_path="a", access_mode=5
)
TWO = Publication(volume_id="data", target="/pods/2/mount", dataset="default/data", flags=("noexec",))
OF_VERSION_1 = (
    '{"magic":"headrace-csi","version":1,'
    '"checksum":"f72c1958e1bac93cd09198e09623ad96fe130b6f47e534c30be14b3e478e4da7",'
    '"body":{"publications":[{"volume_id":"data","target":"/pods/1/mount","dataset":"default/data","sub_path":"a",'
    '"access_mode":5,"flags":[],"readonly":false}]}}\n'
)

publications = st.builds(
    Publication,
    volume_id=st.text(min_size=1, max_size=20),
    target=st.text(min_size=1, max_size=20),
    dataset=st.text(max_size=20),
    sub_path=st.text(max_size=20),
    access_mode=st.integers(0, 9),
    flags=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    readonly=st.booleans(),
)


@given(st.lists(publications, max_size=5).map(tuple))
def test_what_is_written_is_read(some: tuple[Publication, ...]) -> None:
    assert restore(dump(some)) == some


def test_files_of_version_1_are_read() -> None:
    assert restore(OF_VERSION_1.encode()) == (ONE,)


@given(st.data())
def test_a_byte_that_changed_is_noticed(data: st.DataObject) -> None:
    raw = bytearray(dump((ONE, TWO)))
    place = data.draw(st.integers(0, len(raw) - 2))
    raw[place] ^= data.draw(st.integers(1, 255))
    try:
        # Where the text means the same (a blank elsewhere), nothing is lost either.
        assert restore(bytes(raw)) == (ONE, TWO)
    except (CorruptDataError, UnsupportedError):
        return


@given(st.integers(0, 300))
def test_a_file_that_was_cut_off_is_refused(length: int) -> None:
    raw = dump((ONE, TWO))
    with pytest.raises(CorruptDataError):
        restore(raw[: min(length, len(raw) - 2)])


def test_a_later_version_is_refused_and_kept(tmp_path: Path) -> None:
    document = json.loads(dump((ONE,))) | {"version": 2}
    file = tmp_path / "published"
    file.write_text(json.dumps(document))
    with pytest.raises(UnsupportedError, match="version 2"):
        State(file).load()
    assert file.exists()


def test_the_state_outlives_its_process(tmp_path: Path) -> None:
    state = State(tmp_path / "published")
    assert state.load() is None
    state.put(ONE)
    state.put(TWO)
    state.remove(ONE.target)
    state.remove("/nothing")
    again = State(tmp_path / "published")
    assert again.load() is None
    assert list(again) == [TWO]
    assert again.get(TWO.target) == TWO
    assert [file.name for file in tmp_path.iterdir()] == ["published"], "no draft is left"


def test_calls_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    state = State(tmp_path / "published")
    many = [ONE.model_copy(update={"target": f"/pods/{number}"}) for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(state.put, many))
        list(pool.map(state.remove, [each.target for each in many[:20]]))
    again = State(tmp_path / "published")
    again.load()
    assert {each.target for each in again} == {each.target for each in many[20:]}


def test_a_damaged_file_is_set_aside_for_a_person(tmp_path: Path) -> None:
    file = tmp_path / "published"
    file.write_bytes(b"nonsense")
    state = State(file)
    said = state.load()
    assert said is not None
    assert "published.damaged-" in said
    assert len(state) == 0
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"nonsense"]
