"""What /proc shows of a process that was called with credentials in its variables; each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from headrace.roles.launching import exposure
from headrace.roles.messages import MountSpec
from headrace.settings.dataset import MountSettings
from headrace.settings.engine import EngineConfig
from headrace.settings.environment import Environment
from headrace.settings.origins import OriginMount, S3Origin

_ORIGIN = S3Origin(
    bucket="b", access_key_id=SecretStr("PLANTED-ID"), secret_access_key=SecretStr("PLANTED-KEY")
)
_SPEC = MountSpec(
    config=EngineConfig(
        name="n", origins=(OriginMount(origin=_ORIGIN),), state_directory=Path("/nowhere/state")
    ),
    mountpoint=Path("/nowhere/mount"),
    settings=MountSettings(),
    registry_directory=Path("/nowhere/run"),
    log_file=None,
)
_FOR_CREDENTIALS = sorted(exposure.credential_variables(_SPEC, Environment({})))

_PROGRAM = """
import json, os, subprocess, sys
from pathlib import Path
from headrace.roles.launching.exposure import hide_credentials
from headrace.roles.messages import MountSpec
from headrace.settings.environment import Environment

left = hide_credentials(MountSpec.from_descriptor(int(sys.argv[1])), Environment.current())
shown = Path("/proc/self/environ").read_bytes().decode(errors="surrogateescape")
handed_on = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
print(json.dumps([shown, handed_on, dict(os.environ), dict(left.variables)]))
"""


def shown_by_a_process(**variables: str) -> tuple[str, str, dict[str, str], dict[str, str]]:
    """What /proc shows, what a child is given, `os.environ`, and what is left, after credentials were hidden."""
    called = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | variables
    descriptor = _SPEC.to_descriptor()
    done = subprocess.run(
        [sys.executable, "-P", "-c", _PROGRAM, str(descriptor)],
        capture_output=True,
        text=True,
        check=True,
        env=called,
        pass_fds=(descriptor,),
    )
    os.close(descriptor)
    shown, handed_on, own, left = json.loads(done.stdout)
    return shown, handed_on, own, left


@pytest.mark.parametrize("name", _FOR_CREDENTIALS)
def test_a_credential_is_gone_from_where_the_kernel_shows_it_and_nothing_else_is(name: str) -> None:
    kept = {f"{name}X": "kept", "AA": f"{name}=kept", "ÄÖ": "ü", "EMPTY": "", "ZZ": "last"}
    shown, handed_on, own, left = shown_by_a_process(**kept, **{name: "PLANTED=very\nlong"})
    for place in (shown, handed_on, str(own), str(left)):
        assert "PLANTED" not in place
    assert kept.items() <= own.items()
    assert kept.items() <= left.items()
    entries = [entry for entry in shown.split("\0") if entry]
    assert {f"{key}={value}" for key, value in kept.items()} <= set(entries)


def test_several_credentials_are_gone_together() -> None:
    shown, handed_on, _, left = shown_by_a_process(
        AWS_ACCESS_KEY_ID="PLANTED-1", AWS_SECRET_ACCESS_KEY="PLANTED-2", HEADRACE_TOKEN="PLANTED-3"
    )
    assert "PLANTED" not in shown + handed_on + str(left)


def test_a_variable_that_a_credential_was_taken_from_is_gone_whatever_its_name() -> None:
    """As after `--option aws.secretKey=env:NAMED_BY_A_USER`: the variable holds the credential and nothing else."""
    shown, handed_on, own, left = shown_by_a_process(
        NAMED_BY_A_USER="PLANTED-KEY", KEPT_BY_A_USER="x PLANTED-KEY"
    )
    for place in (shown, handed_on, str(own), str(left)):
        assert "NAMED_BY_A_USER" not in place
        assert "KEPT_BY_A_USER" in place


def test_what_could_not_be_overwritten_counts_as_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("headrace.settings.environment._overwrite", refuse)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "PLANTED")
    left = exposure.hide_credentials(_SPEC, Environment.current())
    assert exposure.shows_credential(_SPEC, left, [])
    assert "AWS_SECRET_ACCESS_KEY" not in os.environ


def test_without_credentials_nothing_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposure, "forget", lambda _: pytest.fail("it was"))
    plain = Environment({"HOME": "/root"})
    assert exposure.hide_credentials(_SPEC, plain) is plain
