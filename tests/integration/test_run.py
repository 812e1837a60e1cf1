"""Programs on virtual nodes: `headrace run`, and DataProcesses; as root, with real mounts and real kills."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.local.layout import BackendLayout
from headrace.local.protocol.client import LocalClient
from headrace.netns.namespaces import can_make_namespaces
from headrace.process.stat import stat_of

from .harness import HEADRACE, Shell, command_lines, eventually

pytestmark = pytest.mark.skipif(not can_make_namespaces(), reason="needs root and network namespaces")

DEADLINE_S = 120.0
CONTENT = b"of a file"
DATASET = """apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {{name: {name}}}
spec:
  placement: Shared
  mounts: [{{mountPoint: "local://{folder}", name: data, path: /}}]
"""
RUNTIME = """---
apiVersion: data.fluid.io/v1alpha1
kind: AlluxioRuntime
metadata: {{name: {name}}}
spec:
  replicas: 1
  tieredstore:
    levels: [{{mediumtype: SSD, path: {cache}, quota: 16Mi}}]
"""
SECRET = """apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {token: VALUE-THAT-NOBODY-SHALL-SEE}
---
"""
VALUE = "VALUE-THAT-NOBODY-SHALL-SEE"
PROCESS = """apiVersion: data.fluid.io/v1alpha1
kind: DataProcess
metadata: {{name: {name}}}
spec:
  dataset: {{name: imagenet, mountPath: {folder}/seen, subPath: train}}
  {more}
  processor:
    script:
      image: busybox
      restartPolicy: {policy}
      env: [{{name: TOKEN, valueFrom: {{secretKeyRef: {{name: keys, key: token}}}}}}]
      volumes: [{{name: out, hostPath: {{path: "{folder}/out", type: DirectoryOrCreate}}}}]
      volumeMounts: [{{name: out, mountPath: "{folder}/written"}}]
      source: |
        {source}
"""
POD = """apiVersion: data.fluid.io/v1alpha1
kind: DataProcess
metadata: {{name: {name}}}
spec:
  dataset: {{name: imagenet, mountPath: {folder}/pod}}
  processor:
    job:
      podSpec:
        restartPolicy: Never
        volumes: [{{name: v, {volume}}}]
        initContainers: [{{name: first, command: [sh, -c, "echo one > {folder}/v/order"],
                          volumeMounts: [{{name: v, mountPath: "{folder}/v"}}]}}]
        containers:
          - name: second
            command: [sh, -c, 'cat {folder}/v/order {folder}/pod/train/a; id -u; echo "$1"', x, "a  $$(b) 'c'"]
            volumeMounts: [{{name: v, mountPath: "{folder}/v"}}]
            securityContext: {{runAsUser: 65534}}
"""


@dataclass(frozen=True)
class Backend:
    """One that is up, and a folder for what its programs see and write."""

    shell: Shell
    folder: Path

    def apply(self, text: str) -> None:
        file = self.folder / "objects.yaml"
        file.write_text(text)
        self.shell.must("apply", "-f", file)

    def declare(self, name: str, *, served: bool = True) -> None:
        text = DATASET.format(name=name, folder=self.folder / "data")
        text += RUNTIME.format(name=name, cache=self.folder / f"cache-{name}") if served else ""
        self.apply(text)

    @property
    def client(self) -> LocalClient:
        """Asks without a command, which takes longer to start than what is waited for."""
        return LocalClient(BackendLayout(self.folder / "state" / "local"))

    def state(self) -> dict[str, Any]:
        return dict(self.client.status().model_dump(mode="json"))

    def users(self) -> list[str]:
        return [each["user"] for each in self.state()["uses"]]

    @contextlib.contextmanager
    def running(self, *words: str | Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
        command = [HEADRACE, "run", *map(str, words)]
        own: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, **options}
        with subprocess.Popen(command, env=self.shell.full_environment(), **own) as program:
            try:
                yield program
            finally:
                program.kill()

    def kill_supervisor(self) -> None:
        os.kill(self.state()["pid"], signal.SIGKILL)

    def status(self, name: str) -> dict[str, Any]:
        found = self.client.objects(["DataProcess"], namespace="default").items
        (document,) = (each for each in found if each["metadata"]["name"] == name)
        return dict(document.get("status") or {})

    def wait_for(self, name: str, phase: str) -> None:
        eventually(lambda: self.status(name).get("phase") == phase, lambda: self.status(name))


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    # Not below pytest's own folder, which no other user may enter: programs run as one.
    folder = Path(tempfile.mkdtemp(prefix="headrace-run-"))
    folder.chmod(0o755)
    (folder / "home" / "run").mkdir(parents=True, mode=0o700)
    (folder / "data" / "train").mkdir(parents=True)
    (folder / "data" / "train" / "a").write_bytes(CONTENT)
    own = {
        "HEADRACE_STATE_DIR": str(folder / "state"),
        "HEADRACE_RUNTIME_DIR": str(folder / "home" / "run"),
    }
    shell = Shell(folder / "home", own)
    shell.must("up", "--nodes", "2", "--node-taint", "node-2:only=named:NoSchedule")
    try:
        found = Backend(shell, folder)
        found.declare("imagenet")
        found.apply(SECRET)
        yield found
    finally:
        shell.must("down")
        shutil.rmtree(folder)


def line_of(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline()


def lives(pid: int) -> bool:
    stat = stat_of(pid)
    return stat is not None and not stat.has_ended


def test_a_program_gets_its_words_folder_input_and_files_and_its_exit_code_is_told(backend: Backend) -> None:
    target = backend.folder / "not" / "there"
    words = ["a b", "\"c\" 'd' $(e) `f`", "", "--dataset=x", "--", "\\n"]
    script = (
        'pwd; cat; ls "$HEADRACE_DATASET_IMAGENET/train"; printf "%s|" "$@"; '
        f"cat {target}/train/a; echo $KEPT $HEADRACE_NODE $HEADRACE_NODE_ADDRESS; ip -o -4 address; exit 7"
    )
    where = ("--dataset", f"imagenet:{target}", "--node", "node-2")
    done = subprocess.run(
        [HEADRACE, "run", *where, "--", "sh", "-c", script, "x", *words],
        env={**backend.shell.full_environment(), "KEPT": "kept"},
        input="of the caller\n",
        capture_output=True,
        text=True,
        cwd=backend.folder / "home",
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == [str(backend.folder / "home"), "of the caller", "a"]
    assert lines[3].startswith("".join(f"{word}|" for word in words) + CONTENT.decode())
    address = next(node["address"] for node in backend.state()["nodes"] if node["name"] == "node-2")
    assert f"kept node-2 {address}" in done.stdout
    assert f"inet {address}/" in done.stdout
    eventually(lambda: not target.parent.exists())


def test_signals_reach_the_program_and_its_end_is_the_commands_end(backend: Backend) -> None:
    with backend.running("--dataset", "imagenet", "--", "sh", "-c", "kill -9 $$") as killed:
        assert killed.wait(DEADLINE_S) == -signal.SIGKILL
    script = "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.1; done"
    words = ("--dataset", "imagenet", "--", "sh", "-c", script)
    with backend.running(*words, start_new_session=True) as interrupted:
        assert line_of(interrupted) == "ready\n"
        os.killpg(interrupted.pid, signal.SIGINT)
        assert interrupted.wait(DEADLINE_S) == 3
        assert line_of(interrupted) == "caught\n"


def test_what_cannot_be_run_has_the_codes_of_shells(backend: Backend) -> None:
    assert backend.shell.run("run", "--dataset", "imagenet", "--", "no-such-program").code == 127
    assert backend.shell.run("run", "--dataset", "imagenet", "--", backend.folder / "data").code == 126
    missing = backend.shell.run("run", "--dataset", "nobodys", "--", "true")
    assert (missing.code, "nobodys" in missing.talk) == (4, True)
    for wrong in ("imagenet:data", "imagenet:/", f"imagenet:{backend.folder}/data/train/a"):
        assert backend.shell.run("run", "--dataset", wrong, "--", "true").code == 3
    eventually(lambda: backend.users() == [])


def test_what_is_waited_for_is_said(backend: Backend) -> None:
    backend.declare("unserved", served=False)
    eventually(lambda: "RuntimeMissing" in backend.shell.run("describe", "dataset", "unserved").talk)
    late = backend.shell.run("run", "--dataset", "unserved", "--timeout", "1s", "--", "true")
    assert (late.code, "RuntimeMissing" in late.talk) == (6, True)
    assert backend.users() == []
    backend.shell.must("delete", "dataset", "unserved")


def test_a_dataset_is_used_for_as_long_as_anything_of_the_program_lives(backend: Backend) -> None:
    backend.declare("guarded")
    script = "sleep 4321 >/dev/null & echo $!; exec cat"
    words = ("--dataset", "guarded", "--", "sh", "-c", script)
    with backend.running(*words, stdin=subprocess.PIPE) as program:
        child = int(line_of(program))
        backend.kill_supervisor()
        backend.shell.must("up")
        assert backend.users() == [f"headrace run sh (process {program.pid})"]
        backend.shell.must("delete", "dataset", "guarded", "--no-wait")
        eventually(lambda: "VolumeInUse" in backend.shell.must("describe", "dataset", "guarded").stdout)
        assert "headrace run sh" in backend.shell.must("describe", "dataset", "guarded").stdout
        assert backend.shell.run("run", "--dataset", "guarded", "--", "true").code == 7
    eventually(lambda: backend.users() == [f"headrace run sh (process {child})"], backend.users)
    os.kill(child, signal.SIGTERM)
    backend.shell.must("wait", "--for=delete", "dataset/guarded", "--timeout", "100s")
    backend.shell.must("delete", "alluxioruntime", "guarded")
    assert backend.users() == []


def test_a_process_runs_once_though_the_supervisor_is_killed_and_shows_no_secret(backend: Backend) -> None:
    out = backend.folder / "out"
    script = f'echo begun >> {backend.folder}/written/begun; ls {backend.folder}/seen; printf %s "$TOKEN" | wc -c; '
    script += f"while [ ! -e {backend.folder}/written/go ]; do sleep 0.1; done; echo done"
    backend.apply(PROCESS.format(name="once", folder=backend.folder, more="", policy="Never", source=script))
    for moment_s in (0.0, 0.5):
        time.sleep(moment_s)
        backend.kill_supervisor()
        backend.shell.must("up")
    eventually((out / "begun").exists, lambda: backend.status("once"))
    assert not [command for command in command_lines() if VALUE.encode() in command]
    assert backend.users() == ["DataProcess default/once"]

    backend.kill_supervisor()
    (out / "go").touch()
    backend.shell.must("up")
    backend.wait_for("once", "Complete")
    assert (out / "begun").read_text() == "begun\n"
    assert backend.shell.must("logs", "dataprocess/once").stdout.split() == ["a", str(len(VALUE)), "done"]
    assert backend.status("once")["infos"]["ExitCode"] == "0"
    (ignored,) = [each for each in backend.status("once")["conditions"] if each["type"] == "FieldsIgnored"]
    assert "spec.processor.script.image" in ignored["message"]
    eventually(lambda: backend.users() == [])
    held = subprocess.run(
        ["grep", "-rl", VALUE, "--exclude=objects.db*", backend.folder / "state"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert held.stdout == ""
    backend.shell.must("delete", "dataprocess", "once")
    assert not list((backend.folder / "state" / "local" / "operations").iterdir())
    assert not (backend.folder / "seen").exists()


def test_a_process_that_fails_says_how_and_what_runs_after_it_fails_too(backend: Backend) -> None:
    after = "runAfter: {kind: DataProcess, name: fails}"
    common = {"folder": backend.folder, "policy": "Never"}
    backend.apply(PROCESS.format(name="fails", more="", source="exit 3", **common))
    backend.apply(PROCESS.format(name="follows", more=after, source="true", **common))
    backend.wait_for("fails", "Failed")
    backend.wait_for("follows", "Failed")
    assert backend.status("fails")["infos"]["ExitCode"] == "3"
    told = backend.shell.must("describe", "dataprocess", "fails").stdout
    assert "script exited with 3" in told
    assert "PredecessorFailed" in backend.shell.must("describe", "dataprocess", "follows").stdout
    backend.shell.must("delete", "dataprocess", "fails", "follows")


def test_a_process_is_tried_again_if_that_is_wanted_and_ended_when_it_is_deleted(backend: Backend) -> None:
    pid = backend.folder / "out" / "pid"
    script = f"[ -e {backend.folder}/written/tried ] || {{ touch {backend.folder}/written/tried; exit 1; }}; "
    script += f"sleep 4322 & echo $! > {backend.folder}/written/pid; wait"
    backend.apply(
        PROCESS.format(name="ended", folder=backend.folder, more="", policy="OnFailure", source=script)
    )
    eventually(lambda: pid.exists() and pid.read_text().endswith("\n"), lambda: backend.status("ended"))
    assert lives(int(pid.read_text()))
    assert "tried again" in backend.shell.must("logs", "dataprocess/ended").stdout
    backend.shell.must("delete", "dataprocess", "ended")
    assert not lives(int(pid.read_text()))
    assert backend.users() == []


def test_a_pod_runs_in_its_order_as_its_user_and_one_that_cannot_is_refused_by_its_field(
    backend: Backend,
) -> None:
    good = POD.format(name="pod", folder=backend.folder, volume="emptyDir: {}")
    bad = POD.format(name="bad", folder=backend.folder, volume="configMap: {name: c}")
    backend.apply(f"{good}---\n{bad}")
    backend.wait_for("pod", "Complete")
    told = backend.shell.must("logs", "dataprocess/pod").stdout
    assert told == f"one\n{CONTENT.decode()}65534\na  $(b) 'c'\n"
    backend.wait_for("bad", "Failed")
    refused = "spec.processor.job.podSpec.volumes[0] is no volume that this machine has"
    assert refused in backend.shell.must("describe", "dataprocess", "bad").stdout
    backend.shell.must("delete", "dataprocess", "pod", "bad")


def test_down_ends_programs_and_takes_their_folders_away(backend: Backend) -> None:
    target = backend.folder / "of" / "run"
    words = ("--dataset", f"imagenet:{target}", "--")
    with (
        backend.running(*words, "sh", "-c", "echo; sleep 4323") as marked,
        backend.running(*words, "env", "-i", "sh", "-c", "echo; sleep 4324") as bare,
    ):
        assert [line_of(marked), line_of(bare)] == ["\n", "\n"]
        assert target.exists()
        backend.shell.must("down")
        assert marked.wait(DEADLINE_S) < 0
        assert bare.wait(DEADLINE_S) < 0
    assert not target.parent.exists()
