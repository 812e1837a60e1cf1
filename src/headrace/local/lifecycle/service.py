"""A service of systemd that looks after a local backend: `headrace up --service` writes it, `headrace down` removes it.

The service is a small process that notices when nobody looks after the backend and has it started again, after a start
of the machine, too. Ending or restarting the service ends nothing of the backend.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from headrace.errors import ConfigError, EngineError, UnsupportedError
from headrace.local.layout import BackendLayout
from headrace.local.processes.child_environment import child_environment
from headrace.settings.environment import Environment

_MARK = "# Written by `headrace up --service`; `headrace down` removes it."
_SYSTEMD_RUNS = Path("/run/systemd/system")
# What the backend's places follow from, and how programs are found.
_VARIABLES = (
    "HOME",
    "PATH",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "HEADRACE_STATE_DIR",
    "HEADRACE_RUNTIME_DIR",
    "HEADRACE_CACHE_DIR",
)
_COMMAND_S = 60.0

_UNIT = """{mark}
[Unit]
Description=Headrace: the local backend in {folder}
After=local-fs.target network.target

[Service]
Type=exec
ExecStart={command}
{variables}
Restart=always
RestartSec=2
# What the backend runs goes on without the service, and is found again.
KillMode=process
LimitNOFILE=1048576

[Install]
WantedBy={target}
"""


def unit_path(layout: BackendLayout, environment: Environment) -> Path:
    """The path of the unit: among those of the machine for root, else among the user's."""
    digest = hashlib.blake2b(bytes(layout.folder), digest_size=4).hexdigest()
    return environment.unit_directory / f"headrace-local-{digest}.service"


def unit_text(layout: BackendLayout, environment: Environment) -> str:
    """The unit. Raises `ConfigError` for a folder or a variable that no unit can hold."""
    command = (sys.executable, "-P", "-m", "headrace.local.lifecycle.watch", str(layout.folder))
    variables = child_environment(environment)
    lines = [
        f"Environment={_quoted(f'{name}={variables[name]}')}" for name in _VARIABLES if variables.get(name)
    ]
    return _UNIT.format(
        mark=_MARK,
        folder=_plain(str(layout.folder)),
        # A `$` would be a variable there, and nowhere else.
        command=" ".join(_quoted(word).replace("$", "$$") for word in command),
        variables="\n".join(lines),
        target="multi-user.target" if _is_root() else "default.target",
    )


def check_systemd() -> None:
    """Raises `UnsupportedError` where systemd does not run the machine."""
    if not _SYSTEMD_RUNS.is_dir():
        raise UnsupportedError.of(
            "--service needs systemd, which does not run this machine",
            hint="leave it out: the supervisors of mounts start a backend again that nobody looks after",
        )


def install(layout: BackendLayout, environment: Environment) -> Path:
    """Writes the unit, enables and starts it; where it is. Raises what kept it from that."""
    path, text = unit_path(layout, environment), unit_text(layout, environment)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.draft")
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise ConfigError.of(
            f"cannot write the service {path}: {error.strerror}", hint="leave --service out"
        ) from None
    _systemctl("daemon-reload")
    _systemctl("enable", "--now", path.name)
    return path


def remove(layout: BackendLayout, environment: Environment) -> bool:
    """Stops the service and takes its unit away, if there is one of ours; whether there was."""
    path = unit_path(layout, environment)
    try:
        is_ours = path.read_text(encoding="utf-8").startswith(_MARK)
    except (OSError, UnicodeDecodeError):
        return False
    if not is_ours:
        return False
    runs = _SYSTEMD_RUNS.is_dir()
    if runs:
        _systemctl("disable", "--now", path.name)
    path.unlink(missing_ok=True)
    if runs:
        _systemctl("daemon-reload")
    return True


def _systemctl(*words: str) -> None:
    command = ["systemctl", *(() if _is_root() else ("--user",)), *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, timeout=_COMMAND_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError.of(f"`{' '.join(command)}` did not run: {error}") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-500:]
        raise EngineError.of(
            f"`{' '.join(command)}` ended with {done.returncode}: {said}",
            hint="the backend runs without the service; for a user's services see `loginctl enable-linger`",
        )


def _is_root() -> bool:
    return os.geteuid() == 0


def _quoted(word: str) -> str:
    """A word of a unit, in which `%` and `\\` mean something."""
    return '"' + _plain(word).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _plain(text: str) -> str:
    if any(not character.isprintable() for character in text):
        raise ConfigError.of(
            f"{text!r} cannot stand in a service of systemd", hint="set HEADRACE_STATE_DIR to another folder"
        )
    return text.replace("%", "%%")
