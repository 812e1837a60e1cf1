from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine.secrets import parse_options, plain_secrets, read_secret_file, resolve
from headrace.errors import ConfigError
from headrace.settings.environment import Environment

EMPTY = Environment({})


def private(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_options_are_words_with_an_equals_sign() -> None:
    assert parse_options(["a=1", "b=x=y", "flag", "empty="]) == {
        "a": "1",
        "b": "x=y",
        "flag": "true",
        "empty": "",
    }


@pytest.mark.parametrize("words", [["=x"], [""], ["a=1", "a=2"]])
def test_wrong_option_words_are_refused(words: list[str]) -> None:
    with pytest.raises(ConfigError):
        parse_options(words)


@pytest.mark.parametrize(
    "text",
    [
        '{"fs.oss.accessKeyId": "i", "fs.oss.accessKeySecret": "s=:"}',
        "# comment\nfs.oss.accessKeyId = i\n\n! another\nfs.oss.accessKeySecret=s=:\n",
        "fs.oss.accessKeyId: i\nfs.oss.accessKeySecret: s=:\n",
    ],
)
def test_secret_file_of_each_form_is_read(tmp_path: Path, text: str) -> None:
    warnings: list[str] = []
    found = read_secret_file(private(tmp_path / "f", text), warnings)
    assert found == {"fs.oss.accessKeyId": "i", "fs.oss.accessKeySecret": "s=:"}
    assert warnings == []


def test_secret_folder_of_kubernetes_is_read(tmp_path: Path) -> None:
    private(tmp_path / "fs.oss.accessKeyId", "i\n")
    private(tmp_path / "fs.oss.accessKeySecret", "s")
    (tmp_path / "..data").mkdir()
    assert read_secret_file(tmp_path, []) == {"fs.oss.accessKeyId": "i", "fs.oss.accessKeySecret": "s"}


def test_file_that_everybody_can_read_is_warned_of(tmp_path: Path) -> None:
    warnings: list[str] = []
    file = private(tmp_path / "f", "a=1")
    file.chmod(0o644)
    read_secret_file(file, warnings)
    assert len(warnings) == 1
    assert f"chmod 600 {file}" in warnings[0]


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": "PLANTED-SECRET"',
        b'{"a": ["PLANTED-SECRET"]}',
        b"PLANTED-SECRET",
        b"a=\xff PLANTED-SECRET",
        b"x" * 2_000_000,
    ],
)
def test_wrong_secret_file_is_an_error_that_repeats_nothing(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "f"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_secret_file(file, [])
    assert "PLANTED" not in f"{caught.value} {caught.value.hint} {caught.value!r}"
    assert caught.value.__cause__ is None


def test_missing_secret_file_is_named() -> None:
    with pytest.raises(ConfigError, match="/absent/file"):
        read_secret_file(Path("/absent/file"), [])


def test_value_may_stand_somewhere_else(tmp_path: Path) -> None:
    file = private(tmp_path / "f", " from file \n")
    given = {"a": f"@{file}", "b": "env:B", "c": "prompt", "d": "@@plain", "e": "plain"}
    resolved = resolve(given, None, Environment({"B": "from variable"}), ask=lambda name: f"asked {name}")
    assert resolved.options == {
        "a": "from file",
        "b": "from variable",
        "c": "asked c",
        "d": "@plain",
        "e": "plain",
    }
    assert "plain" not in repr(resolved)


def test_command_line_weighs_more_than_the_secret_file(tmp_path: Path) -> None:
    file = private(tmp_path / "f", "a=file\nb=file")
    assert resolve({"a": "given"}, file, EMPTY).options == {"a": "given", "b": "file"}


@pytest.mark.parametrize(
    ("value", "message"), [("env:ABSENT", "ABSENT"), ("prompt", "nobody to ask"), ("@/absent", "/absent")]
)
def test_value_that_is_nowhere_is_an_error(value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve({"fs.oss.accessKeySecret": value}, None, EMPTY)


def test_only_credentials_in_clear_are_warned_of() -> None:
    given = {
        "fs.oss.endpoint": "e",
        "fs.oss.accessKeySecret": "clear",
        "train:aws.secretKey": "clear",
        "aws.accessKeyId": "env:X",
        "session-token": "@file",
        "security-token": "@@clear",
        "password": "prompt",
    }
    assert plain_secrets(given) == ["fs.oss.accessKeySecret", "train:aws.secretKey", "security-token"]
