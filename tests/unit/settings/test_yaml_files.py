from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.settings.yaml_files import parse_document, read_document

FILE = Path("worker.yaml")


def test_values_come_with_their_lines() -> None:
    document = parse_document(FILE, "id: w1\ncache:\n  - /a:1Gi\n  - /b:2Gi\ntls:\n  key: k\nhigh: 0.9\n")
    assert document.content == {"id": "w1", "cache": ["/a:1Gi", "/b:2Gi"], "tls": {"key": "k"}, "high": 0.9}
    assert document.where(("id",)) == "worker.yaml line 1"
    assert document.where(("cache", 1)) == "worker.yaml line 4"
    assert document.where(("tls", "nothing")) == "worker.yaml line 5"
    assert document.where(("nothing",)) == "worker.yaml"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id: a\nid: b\n", "worker.yaml line 2: 'id' is set a second time"),
        ("a: &x [1]\nb: *x\n", "worker.yaml line 2: an alias (*name) is not a setting"),
        ("- a\n", "worker.yaml line 1: KEY: VALUE is expected here"),
        ("id: w1\ncache: [a\n", "worker.yaml line 3: did not find expected ',' or ']'"),
        (
            "id: !!python/object:os.system x\n",
            "worker.yaml line 1: this value cannot be read: write it in quotes, without a tag",
        ),
        ("a: " + "[" * 50 + "]" * 50, "worker.yaml line 1: nested too deeply"),
        (
            "id: w1\n---\nid: w2\n",
            "worker.yaml line 3: a second document begins here, and only one is read",
        ),
        ("<<: {id: w1}\n", "worker.yaml line 1: a merge key (<<) is not read: write the keys out"),
    ],
)
def test_a_fault_is_told_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_document(FILE, text)
    assert str(raised.value) == message


def test_an_empty_file_says_nothing() -> None:
    assert parse_document(FILE, "# only words\n").content == {}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1, max_size=8), VALUES, max_size=4))
def test_what_yaml_writes_is_read_as_it_was(content: dict[str, object]) -> None:
    text = yaml.safe_dump(content, default_style='"') if content else ""
    # Quoted scalars of all kinds keep their tags, so that what is read is what was written.
    try:
        assert parse_document(FILE, text).content == content
    except ConfigError as error:
        assert "nested too deeply" in str(error)


@given(st.text(max_size=200))
def test_anything_else_is_a_configuration_error(text: str) -> None:
    try:
        parse_document(FILE, text)
    except ConfigError as error:
        assert str(error).startswith("worker.yaml")
        assert "\n" not in str(error)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_document(tmp_path / "no.yaml")
    (tmp_path / "big.yaml").write_bytes(b"#" * (1 << 20) + b"\n#")
    with pytest.raises(ConfigError, match="larger than"):
        read_document(tmp_path / "big.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not text"):
        read_document(tmp_path / "binary.yaml")
