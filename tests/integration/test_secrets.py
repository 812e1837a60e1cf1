"""A planted secret is searched for everywhere a process leaves traces."""

from __future__ import annotations

import re
from pathlib import Path

from .harness import Shell, bytes_of, files_below


def test_a_secret_is_nowhere_to_be_seen(exposed_shell: Shell, bucket, tmp_path: Path) -> None:
    secret = bucket.server.credentials.secret_access_key
    exposed_shell.environment.pop("AWS_SECRET_ACCESS_KEY")
    secret_file = tmp_path / "secret"
    secret_file.write_text(f"fs.s3.accessKeySecret={secret}\n")
    secret_file.chmod(0o600)
    bucket.fill({"a": b"1"})
    log = tmp_path / "headrace.log"
    words = ["--secret-file", secret_file, "--log-file", log]
    with exposed_shell.mounted(
        bucket.uri, tmp_path / "mnt", *words, cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        pid = exposed_shell.status(mountpoint)["pid"]
        (mountpoint / "a").read_bytes()
        exposed_shell.run("refresh", mountpoint)
        traces = [
            exposed_shell.run(*verb).talk
            for verb in (["status", "--json"], ["status"], ["metrics", mountpoint])
        ]
        traces += [
            Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace")
            for name in ("cmdline", "environ")
        ]
        traces += [Path("/proc/mounts").read_text()]
    kept = [path for path in files_below(tmp_path) if path != secret_file]
    kept = [path for path in kept if bucket.server.root not in path.parents and "server" not in path.parts]
    traces += [bytes_of(path).decode(errors="replace") for path in kept]
    assert not [trace for trace in traces if secret in trace]


def test_a_secret_on_the_command_line_does_not_stay_there(
    exposed_shell: Shell, bucket, tmp_path: Path
) -> None:
    secret = bucket.server.credentials.secret_access_key
    exposed_shell.environment.pop("AWS_SECRET_ACCESS_KEY")
    bucket.fill({"a": b"1"})
    words = ["--option", f"aws.secretKey={secret}"]
    with exposed_shell.mounted(
        bucket.uri, tmp_path / "mnt", *words, cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        assert (mountpoint / "a").read_bytes() == b"1"
        pid = exposed_shell.status(mountpoint)["pid"]
        assert secret not in Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        assert secret not in Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")


def parent_of(pid: int) -> int:
    """Of a mount process its supervisor."""
    return int(re.findall(r"^PPid:\s*(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[0])


def test_a_secret_of_a_variable_does_not_stay_there(exposed_shell: Shell, bucket, tmp_path: Path) -> None:
    """Neither in one of the clouds' own variables nor in one of the user's."""
    secret = bucket.server.credentials.secret_access_key
    exposed_shell.environment["MINE"] = exposed_shell.environment["AWS_SECRET_ACCESS_KEY"] = secret
    exposed_shell.environment["KEPT"] = "kept"
    bucket.fill({"a": b"1"})
    words = ["--option", "aws.secretKey=env:MINE"]
    with exposed_shell.mounted(
        bucket.uri, tmp_path / "mnt", *words, cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        assert (mountpoint / "a").read_bytes() == b"1"
        serving = exposed_shell.status(mountpoint)["pid"]
        for pid in (serving, parent_of(serving)):
            shown = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
            assert secret not in shown
            assert "KEPT=kept" in shown


def test_a_refused_key_is_not_repeated_in_the_error(exposed_shell: Shell, bucket, tmp_path: Path) -> None:
    bucket.fill({"a": b"1"})
    exposed_shell.environment["AWS_SECRET_ACCESS_KEY"] = "planted-secret-value"
    words = [word for name, value in bucket.options.items() for word in ("--option", f"{name}={value}")]
    (tmp_path / "mnt").mkdir()
    outcome = exposed_shell.run("mount", bucket.uri, tmp_path / "mnt", "--cache", f"{tmp_path}/c:1Gi", *words)
    assert outcome.code != 0
    assert "planted-secret-value" not in outcome.talk
