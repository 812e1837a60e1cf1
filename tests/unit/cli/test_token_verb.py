"""`headrace token`: what is printed is a token, allows what was asked for, and can be used as a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.control.cluster_token import create_token, read_token
from headrace.control.rights import Rights, rights_of
from headrace.exits import ExitCode


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    create_token(path)
    return path


def printed(capfd: pytest.CaptureFixture[str], holder: str, file: Path) -> str:
    assert main(["token", "--for", holder, "--token-file", str(file)]) == 0
    return capfd.readouterr().out


def kept(text: str, path: Path) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def test_each_holder_gets_what_it_needs(whole: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for holder, rights in (("worker", Rights.WORKER), ("reader", Rights.READER)):
        file = kept(printed(capfd, holder, whole), whole.with_name(holder))
        assert rights_of(read_token(file)) is rights


def test_a_reader_s_follows_from_a_worker_s_as_well(whole: Path, capfd: pytest.CaptureFixture[str]) -> None:
    worker = kept(printed(capfd, "worker", whole), whole.with_name("worker"))
    assert printed(capfd, "reader", worker) == printed(capfd, "reader", whole)


def test_nothing_more_comes_of_a_reader_s(whole: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = printed(capfd, "reader", whole)
    reader = kept(text, whole.with_name("reader"))
    assert main(["token", "--for", "worker", "--token-file", str(reader)]) == ExitCode.REFUSED
    told = capfd.readouterr().err
    assert "a reader's token is not enough" in told
    assert text.strip() not in told
