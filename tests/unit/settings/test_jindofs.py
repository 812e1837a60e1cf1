"""The properties file of JindoFS, as the documents of its time write it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError, HeadraceError, UnsupportedError
from headrace.settings.jindofs import MOUNTPOINT, is_properties, parse_properties, read_properties

SEED = """\
jfs.namespaces: test
jfs.namespaces.test.mode :  cache
jfs.namespaces.test.oss.uri :  oss://xxx-sh-test.oss-cn-shanghai-internal.aliyuncs.com/xxx/k8s_c1
jfs.namespaces.test.oss.access.key :  xx
jfs.namespaces.test.oss.access.secret :  yy
"""


def test_the_file_of_the_document_is_understood() -> None:
    found = parse_properties(SEED, "f")
    (namespace,) = found.namespaces
    assert namespace.name == "test"
    assert namespace.uri == "oss://xxx-sh-test.oss-cn-shanghai-internal.aliyuncs.com/xxx/k8s_c1"
    assert namespace.options == {"fs.oss.accessKeyId": "xx", "fs.oss.accessKeySecret": "yy"}
    assert found.warnings == []
    assert found.mountpoint == MOUNTPOINT == Path("/mnt/jfs")


def test_several_namespaces_both_separators_and_comments() -> None:
    text = (
        "# comment\n! another\n[bigboot]\n\njfs.namespaces = a , b\r\njfs.namespaces.a.oss.uri=oss://x/a\n"
        "jfs.namespaces.b.mode=CACHE\njfs.namespaces.b.oss.uri: oss://y/b=c:d\n"
    )
    found = parse_properties(text, "f")
    assert [(each.name, each.uri) for each in found.namespaces] == [
        ("a", "oss://x/a"),
        ("b", "oss://y/b=c:d"),
    ]


def test_block_mode_is_refused_clearly() -> None:
    with pytest.raises(UnsupportedError, match=r"^f line 2: namespace test: only mode 'cache' is supported$"):
        parse_properties(SEED.replace("cache", "block"), "f")


def test_keys_without_meaning_are_named_in_one_line() -> None:
    text = (
        SEED
        + "jfs.namespaces.test.oss.upload.threads: 4\nstorage.rpc.port=6101\njfs.cache.data-cache.enable: 1\n"
    )
    (warning,) = parse_properties(text, "f").warnings
    assert warning == (
        "f: without meaning here: jfs.namespaces.test.oss.upload.threads, storage.rpc.port, "
        "jfs.cache.data-cache.enable"
    )


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            SEED + "jfs.namespaces.test.mod: cache\n",
            "f line 6: unknown key 'jfs.namespaces.test.mod'",
            "did you mean 'jfs.namespaces.test.mode'?",
        ),
        (
            SEED + "jfs.namespaces.test.oss.acess.key: PLANTED\n",
            "f line 6: unknown key 'jfs.namespaces.test.oss.acess.key'",
            "did you mean 'jfs.namespaces.test.oss.access.key'?",
        ),
        (
            SEED + "jfs.namespaces.other.mode: cache\n",
            "f line 6: 'jfs.namespaces.other.mode' is for a namespace that 'jfs.namespaces' does not name",
            "named are test",
        ),
        (
            SEED + "jfs.namespaces.test.mode: cache\n",
            "f line 6: 'jfs.namespaces.test.mode' is set a second time",
            None,
        ),
        (SEED + "no value here\n", "f line 6: 'KEY: VALUE' or 'KEY = VALUE' is expected here", None),
        (
            "jfs.namespace: test\n",
            "f names no namespaces",
            "did you mean 'jfs.namespaces' by 'jfs.namespace'?",
        ),
        ("jfs.namespaces: ..\n", "f line 1: '..' cannot be the name of a folder", None),
        ("jfs.namespaces: a,a\n", "f line 1: a namespace is named twice", None),
        ("jfs.namespaces: a\n", "f: namespace a has no address", "add jfs.namespaces.a.oss.uri: oss://…"),
    ],
)
def test_a_slip_of_the_hand_is_told(text: str, message: str, hint: str | None) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_properties(text, "f")
    assert (str(raised.value), raised.value.hint) == (message, hint)


NAMES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,8}", fullmatch=True)
VALUES = st.text(
    alphabet=st.characters(blacklist_categories=["Cc", "Cs", "Zs", "Zl", "Zp"], blacklist_characters="\x85"),
    min_size=1,
    max_size=20,
)


@given(
    st.dictionaries(NAMES, st.tuples(VALUES, VALUES), min_size=1, max_size=4),
    st.sampled_from([":", "=", " : ", "= "]),
)
def test_what_is_written_is_read(namespaces: dict[str, tuple[str, str]], separator: str) -> None:
    lines = [f"jfs.namespaces{separator}{','.join(namespaces)}"]
    for name, (address, secret) in namespaces.items():
        lines.append(f"jfs.namespaces.{name}.oss.uri{separator}oss://{address}")
        lines.append(f"jfs.namespaces.{name}.oss.access.secret{separator}x{secret}")
    found = parse_properties("\n".join(lines), "f")
    assert {each.name: each.uri for each in found.namespaces} == {
        name: f"oss://{address}" for name, (address, _) in namespaces.items()
    }
    for each in found.namespaces:
        assert each.options["fs.oss.accessKeySecret"] == f"x{namespaces[each.name][1]}"
        assert f"x{namespaces[each.name][1]}" not in repr(each).replace(each.uri, "").replace(each.name, "")


def test_a_value_that_begins_with_an_at_is_that_text() -> None:
    text = SEED.replace(" yy", " @/etc/passwd")
    assert parse_properties(text, "f").namespaces[0].options["fs.oss.accessKeySecret"] == "@@/etc/passwd"


@given(st.text(max_size=300))
def test_anything_else_is_told_in_one_line(text: str) -> None:
    try:
        parse_properties(text, "f")
    except HeadraceError as error:
        assert "\n" not in str(error)


def test_a_file_is_known_by_its_name(tmp_path: Path) -> None:
    assert is_properties(Path("jindofs.properties"))
    assert not is_properties(Path("master.yaml"))
    path = tmp_path / "jindofs.cfg"
    path.write_bytes(b"\xef\xbb\xbf" + SEED.encode())
    assert read_properties(path).namespaces[0].name == "test"
    path.write_bytes(b"\xff\xff")
    with pytest.raises(ConfigError, match="not text"):
        read_properties(path)
