"""`headrace doctor` beside a real storage, and a support bundle of a real mount."""

from __future__ import annotations

import json
import socket
import subprocess
import tarfile
import tempfile
from pathlib import Path

from headrace.local.layout import BackendLayout

from .harness import DEADLINE_S, HEADRACE, Outcome, Shell
from .test_bad_input import options_of


def faults_of(outcome: Outcome) -> dict[str, dict[str, str]]:
    assert outcome.code in (0, 12), outcome.talk
    found = json.loads(outcome.stdout)
    faults = {each["check"]: each for each in found["findings"] if each["level"] == "fault"}
    assert (found["faults"], outcome.code != 0) == (len(faults), bool(faults))
    return faults


def test_a_storage_that_works_has_no_faults_and_one_that_refuses_has_a_remedy(
    exposed_shell: Shell, bucket
) -> None:
    bucket.fill({"a": b"1"})
    words = ("doctor", bucket.uri, "-o", "json", "--cache", "none", *options_of(bucket))
    assert faults_of(exposed_shell.run(*words)) == {}
    exposed_shell.environment["AWS_SECRET_ACCESS_KEY"] = "certainly-not-the-key"
    refused = exposed_shell.run(*words)
    assert "certainly-not-the-key" not in refused.talk + refused.stdout
    (fault,) = faults_of(refused).values()
    assert fault["check"] == f"list of {bucket.uri}" and fault["remedy"]


def test_the_bundle_of_a_mount_tells_of_it_and_holds_no_key(
    exposed_shell: Shell, bucket, tmp_path: Path
) -> None:
    bucket.fill({"a": b"1"})
    mnt, target = tmp_path / "mnt", tmp_path / "bundle.tar.gz"
    mnt.mkdir()
    mounted = exposed_shell.run("mount", bucket.uri, mnt, "--cache", f"{tmp_path}/c:1Gi", *options_of(bucket))
    assert mounted.code == 0, mounted.talk
    try:
        made = exposed_shell.run("support-bundle", "--file", target)
        assert made.code == 0, made.talk
    finally:
        exposed_shell.run("unmount", mnt)
    with tarfile.open(target) as archive:
        texts = {member.name: archive.extractfile(member).read().decode() for member in archive}
    status = json.loads(texts["bundle/mounts/0/status.json"])
    assert status["snapshot"]["files"] == 1
    assert "headrace_" in texts["bundle/mounts/0/metrics.txt"] and texts["bundle/mounts/0/log.txt"]
    assert str(mnt) in texts["bundle/kernel/mounts"]
    assert bucket.server.credentials.secret_access_key not in "".join(texts.values())


def test_a_bundle_whose_program_is_killed_leaves_no_half_file(shell: Shell, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="hr-") as state, socket.socket(socket.AF_UNIX) as supervisor:
        shell.environment["HEADRACE_STATE_DIR"] = state
        layout = BackendLayout(Path(state) / "local")
        layout.folder.mkdir()
        layout.database.touch()
        supervisor.bind(str(layout.socket))
        supervisor.listen()
        supervisor.settimeout(DEADLINE_S)
        folder = tmp_path / "here"
        folder.mkdir()
        command = [HEADRACE, "support-bundle", "--file", str(folder / "b.tar.gz")]
        program = subprocess.Popen(command, env=shell.full_environment(), stderr=subprocess.PIPE)
        # It has written half of its file, and now waits for an answer that does not come.
        with supervisor.accept()[0]:
            program.kill()
            program.communicate()
    assert list(folder.iterdir()) == []
