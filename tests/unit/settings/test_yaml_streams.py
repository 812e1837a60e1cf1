from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.settings.yaml_streams import read_stream, write_stream

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


TAGGED = "this value cannot be read: write it in quotes, without a tag"


@given(st.lists(st.dictionaries(st.text(min_size=1, max_size=8), VALUES, min_size=1, max_size=4), max_size=3))
def test_what_is_written_is_read_as_it_was(contents: list[dict[str, object]]) -> None:
    assert [document.content for document in read_stream(write_stream(contents), "x")] == contents


@pytest.mark.parametrize(
    "text", ["1e3", "0o14", "0x1F", "12:30", "007", "1_000", "1.", "yes", "~", "2020-01-01"]
)
def test_texts_that_other_readers_take_for_something_else_are_quoted(text: str) -> None:
    assert write_stream([{"a": text}]).strip().strip("a: ")[0] in "\"'"


def test_empty_documents_are_passed_over_and_lines_count_through() -> None:
    documents = read_stream("---\n# nothing\n---\na: 1\nb:\n  - x\n  - c: 2\n---\n---\nd: 3\n", "x")
    assert [document.content for document in documents] == [{"a": 1, "b": ["x", {"c": 2}]}, {"d": 3}]
    assert [document.first_line for document in documents] == [4, 10]
    assert documents[0].line(("b", 1, "c")) == 7
    assert documents[0].line(("b", 1, "nothing", "there")) == 7
    assert documents[0].line(("nothing",)) == 4


def test_aliases_are_what_they_stand_for() -> None:
    (document,) = read_stream("a: &x {k: 1}\nb: *x\n", "x")
    assert document.content == {"a": {"k": 1}, "b": {"k": 1}}


def test_an_alias_bomb_is_refused() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 10)
    )
    with pytest.raises(ConfigError, match="more than 500000 values, those of aliases included"):
        read_stream(bomb, "bomb.yaml")


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("a: 1\na: 2\n", [(2, "'a' is set a second time")]),
        ("a: {a: 1, a: 2}\nb: !!python/name:os.system x\n", [(1, "'a' is set a second time"), (2, TAGGED)]),
        ("a: &x [*x]\n", [(1, "nested too deeply")]),
        ("a: {<<: {b: 1}}\n", [(1, "a merge key (<<) is not read: write the keys out")]),
        ("? [a]\n: b\n", [(1, "a key must be a word")]),
        ("a: .inf\n", [(1, "this number has no end: write it in quotes if it is a text")]),
        ("a: " + "9" * 5000, [(1, "this value cannot be read: write it in quotes")]),
    ],
)  # fmt: skip
def test_all_faults_of_a_document_are_told(text: str, faults: list[tuple[int, str]]) -> None:
    (document,) = read_stream(text, "x")
    assert document.faults == faults


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: " + "[" * 5000, "x line 1: nested too deeply"),
        ("a: b: c\n", "x line 1: mapping values are not allowed in this context"),
        ("a: *x\n", "x line 1: found undefined alias"),
        ("a: \x00", "x is not valid YAML: it holds a character that no text file holds"),
        ("a: " + "x" * (8 << 20), "x is larger than 8 MiB"),
    ],
)
def test_what_is_no_yaml_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_stream(text, "x")
    assert str(raised.value) == message
