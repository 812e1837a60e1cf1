from __future__ import annotations

import os
import stat

import pytest

from headrace.errors import HeadraceError
from headrace.local.processes.child_environment import child_environment
from headrace.local.processes.private_files import write_private
from headrace.settings.environment import Environment


def test_a_private_file_is_its_owners_alone_whatever_was_there(tmp_path) -> None:
    path = tmp_path / "role" / "secret"
    path.parent.mkdir(mode=0o755)
    path.write_bytes(b"value")
    path.chmod(0o644)
    assert write_private(path, b"value")
    assert not write_private(path, b"value")
    assert write_private(path, b"other")
    assert path.read_bytes() == b"other"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["secret"]


def test_an_error_names_the_file_and_not_its_content(tmp_path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HeadraceError) as raised:
        write_private(tmp_path / "file" / "secret", b"topsecret")
    assert str(tmp_path) in raised.value.message
    assert "topsecret" not in str(raised.value)


def test_credentials_and_settings_of_the_caller_are_not_inherited() -> None:
    variables = {
        "PATH": "/bin",
        "AWS_SECRET_ACCESS_KEY": "planted",
        "HEADRACE_TOKEN": "planted",
        "HEADRACE_WORKER_LISTEN": ":1",
        "HEADRACE_MASTER": "http://elsewhere",
        "HEADRACE_RUNTIME_DIR": "/run/x",
    }
    assert child_environment(Environment(variables)) == {"PATH": "/bin", "HEADRACE_RUNTIME_DIR": "/run/x"}
