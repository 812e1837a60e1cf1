"""Real processes: what a mount process gets from its starter, and what the rest of the machine can see of it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pydantic import SecretStr

from headrace.errors import EngineError, RefusedError
from headrace.roles.launching import launch
from headrace.roles.messages import MountSpec
from headrace.settings.dataset import MountSettings
from headrace.settings.engine import EngineConfig
from headrace.settings.environment import Environment
from headrace.settings.origins import OriginMount, S3Origin


def spec(tmp_path: Path) -> MountSpec:
    secret = S3Origin(bucket="b", access_key_id=SecretStr("i"), secret_access_key=SecretStr("PLANTED-SECRET"))
    config = EngineConfig(name="n", origins=(OriginMount(origin=secret),), state_directory=tmp_path)
    return MountSpec(
        config=config,
        mountpoint=tmp_path,
        settings=MountSettings(),
        registry_directory=tmp_path,
        log_file=tmp_path / "mount.log",
    )


def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str) -> None:
    """A program in place of the mount process: `spec` are read, `answer(...)` answers."""
    program = tmp_path / "stand_in.py"
    program.write_text(
        "import os, sys\n"
        "from pathlib import Path\n"
        "from headrace.errors import RefusedError\n"
        "from headrace.roles.messages import Answer, MountSpec\n"
        "spec = MountSpec.from_descriptor(int(sys.argv[2]))\n" + textwrap.dedent(body)
    )
    monkeypatch.setattr(launch, "SUPERVISOR", (sys.executable, "-P", str(program)))


def environment() -> Environment:
    return Environment(
        {
            **Environment.current().variables,
            "AWS_SECRET_ACCESS_KEY": "PLANTED-SECRET",
            "MINE": "PLANTED-SECRET",
            "KEPT": "1",
        }
    )


def test_no_credential_is_in_the_arguments_or_variables_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """
        secret = spec.config.origins[0].origin.secret_access_key.get_secret_value()
        seen = Path("/proc/self/cmdline").read_bytes() + Path("/proc/self/environ").read_bytes()
        Path(spec.mountpoint, "seen").write_bytes(seen)
        Path(spec.mountpoint, "session").write_text(f"{os.getsid(0) == os.getpid()} {os.getcwd()} {secret}")
        Answer(mode="classic").send(int(sys.argv[3]))
    """
    stand_in(monkeypatch, tmp_path, body)
    assert launch.launch(spec(tmp_path), environment()).wait().mode == "classic"
    seen = (tmp_path / "seen").read_bytes()
    assert b"PLANTED" not in seen
    assert b"KEPT=1" in seen
    assert (tmp_path / "session").read_text() == "True / PLANTED-SECRET"


def test_foreground_process_forgets_its_old_arguments(tmp_path: Path) -> None:
    """The whole way: a command line with a credential becomes a process without one."""
    program = tmp_path / "mount.py"
    program.write_text(
        "import sys\nfrom pathlib import Path\nfrom headrace.roles.messages import MountSpec\n"
        "spec = MountSpec.from_descriptor(int(sys.argv[2]))\n"
        "print(Path('/proc/self/cmdline').read_bytes() + Path('/proc/self/environ').read_bytes())\n"
        "print(spec.config.origins[0].origin.secret_access_key.get_secret_value() == 'PLANTED-SECRET')\n"
    )
    (tmp_path / "mnt").mkdir()
    starter = (
        "import sys\nfrom headrace.roles.launching import launch\nfrom headrace.cli.main import main\n"
        f"launch.SUPERVISOR = (sys.executable, '-P', {str(program)!r})\nsys.exit(main(sys.argv[1:]))\n"
    )
    words = ["mount", "s3://b", str(tmp_path / "mnt"), "--cache", "none", "--foreground"]
    words += ["-o", "aws.accessKeyId=i", "-o", "aws.secretKey=PLANTED-SECRET"]
    variables = {**Environment.current().variables, "AWS_SESSION_TOKEN": "PLANTED-TOKEN"}
    done = subprocess.run(
        [sys.executable, "-c", starter, *words], capture_output=True, text=True, env=variables, check=True
    )
    seen, same = done.stdout.splitlines()
    assert "PLANTED" not in seen
    assert same == "True"
    assert "PLANTED" not in done.stderr
    assert "warning: the credential aws.secretKey" in done.stderr


def test_error_of_the_process_is_raised_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, tmp_path, "Answer.of_error(RefusedError.of('no')).send(int(sys.argv[3]))")
    with pytest.raises(RefusedError, match="no"):
        launch.launch(spec(tmp_path), environment()).wait()


def test_process_that_dies_is_told_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """
        spec.log_file.write_text("one\\nthe last words\\n")
        os.kill(os.getpid(), 9)
    """
    stand_in(monkeypatch, tmp_path, body)
    with pytest.raises(EngineError, match="ended by signal 9 before it was ready") as caught:
        launch.launch(spec(tmp_path), environment()).wait()
    assert (caught.value.hint or "").endswith("it ends: the last words")


def test_no_descriptor_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, tmp_path, "Answer().send(int(sys.argv[3]))")
    before = os.listdir("/proc/self/fd")
    launch.launch(spec(tmp_path), environment()).wait()
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_process_may_open_as_many_files_as_the_machine_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    stand_in(
        monkeypatch,
        tmp_path,
        """
        import resource
        Answer(files=resource.getrlimit(resource.RLIMIT_NOFILE)[0]).send(int(sys.argv[3]))
        """,
    )
    try:
        assert launch.launch(spec(tmp_path), environment()).wait().files == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
