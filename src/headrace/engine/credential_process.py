"""Keys from the program that an AWS profile names (`credential_process`).

It runs as this process's user, for whom the file with its name must be: nobody else may make us run programs. Its time
and its output are bounded, and what it says is never repeated.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import signal
import stat
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.engine.temporary_keys import TemporaryKeys, seconds_of
from headrace.errors import ConfigError, DeadlineError, RefusedError

_LONGEST_S = 20.0
_MOST_BYTES = 64 << 10
_FIELDS = {
    "AccessKeyId": "access_key_id",
    "SecretAccessKey": "secret_access_key",
    "SessionToken": "session_token",
}


def run(command: str, profile: str, files: Sequence[Path]) -> TemporaryKeys:
    """The keys that `command` of `profile` prints; it stands in one of `files`."""
    for file in files:
        if file.exists():
            _check_owner(file, profile)
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        raise ConfigError.of(f"credential_process of AWS profile '{profile}' is not a command")
    return _keys(_output(words, profile), profile)


def _check_owner(config: Path, profile: str) -> None:
    try:
        found = config.stat()
    except OSError as error:
        raise ConfigError.of(f"cannot look at {config}: {error.strerror}") from None
    if found.st_uid not in (0, os.geteuid()):
        raise RefusedError.of(
            f"credential_process of AWS profile '{profile}' is not run: {config} belongs to another user",
            hint="a program is run for the user whose file names it; use a file of your own",
        )
    if found.st_mode & stat.S_IWOTH:
        raise RefusedError.of(
            f"credential_process of AWS profile '{profile}' is not run: everybody may write {config}",
            hint=f"chmod 600 {config}",
        )


def _output(words: list[str], profile: str) -> bytes:
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise ConfigError.of(
            f"credential_process of AWS profile '{profile}' cannot be run: {error.strerror}",
            hint="check the path of the program",
        ) from None
    try:
        output = _read(process, profile)
        code = process.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        raise _late(profile) from None
    finally:
        if process.returncode is None:
            # With what it started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdout:
            process.stdout.close()
    if code != 0:
        raise RefusedError.of(
            f"credential_process of AWS profile '{profile}' failed with code {code}",
            hint="run its command by hand to see why",
        )
    return output


def _read(process: subprocess.Popen[bytes], profile: str) -> bytes:
    deadline, output = time.monotonic() + _LONGEST_S, b""
    descriptor = process.stdout.fileno() if process.stdout else -1
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            raise _late(profile)
        piece = os.read(descriptor, _MOST_BYTES)
        output += piece
        if not piece:
            return output
        if len(output) > _MOST_BYTES:
            raise ConfigError.of(
                f"credential_process of AWS profile '{profile}' prints more than any keys are long"
            )


def _late(profile: str) -> DeadlineError:
    return DeadlineError.of(
        f"credential_process of AWS profile '{profile}' gave no keys within {_LONGEST_S:.0f} s",
        hint="it has no terminal to ask anybody; run its command by hand to see what it waits for",
    )


def _keys(output: bytes, profile: str) -> TemporaryKeys:
    wrong = ConfigError.of(
        f"credential_process of AWS profile '{profile}' does not print keys as AWS wants them",
        hint='it must print {"Version": 1, "AccessKeyId": "…", "SecretAccessKey": "…"}',
    )
    try:
        told: Any = json.loads(output)
        if not isinstance(told, dict) or told.get("Version") != 1:
            raise wrong
        fields = {name: str(told[key]) for key, name in _FIELDS.items() if told.get(key)}
        ends = told.get("Expiration")
        expires_at_s = seconds_of(str(ends)) if ends else None
    except ValueError:
        raise wrong from None
    if "access_key_id" not in fields or "secret_access_key" not in fields:
        raise wrong
    return TemporaryKeys(fields, expires_at_s)
