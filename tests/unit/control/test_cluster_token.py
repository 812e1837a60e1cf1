from __future__ import annotations

import base64
from pathlib import Path

import pytest
from pydantic import SecretStr

from headrace.control.cluster_token import check_token, create_token, read_token
from headrace.errors import ConfigError, RefusedError


def test_a_new_token_is_long_private_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = create_token(path)
    assert len(base64.b64decode(token.get_secret_value(), validate=True)) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert create_token(path) == token == read_token(path)
    assert [file.name for file in tmp_path.iterdir()] == ["token"]


def test_a_token_that_everybody_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    create_token(path)
    path.chmod(0o644)
    with pytest.raises(RefusedError) as raised:
        read_token(path)
    assert raised.value.hint == f"chmod 600 {path}"


@pytest.mark.parametrize(
    "text", ["", "short", "PLANTED two\nlines of text", "PLANTED-é-0123456789abc", "x" * 1025]
)
def test_what_is_no_token_is_refused_without_being_repeated(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError) as raised:
        read_token(path)
    assert "PLANTED" not in f"{raised.value} {raised.value.hint}"


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not there"):
        read_token(tmp_path / "no")
    assert check_token(SecretStr("x" * 16), "HEADRACE_TOKEN")
