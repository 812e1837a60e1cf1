"""Starts a mount: its supervisor in the background, or in place of this process."""

from __future__ import annotations

import importlib
import os
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from headrace.errors import EngineError
from headrace.roles.launching.exposure import credential_variables, hide_credentials, shows_credential
from headrace.roles.messages import Answer, MountSpec, ProcessSpec, read_answer
from headrace.roles.supervision.copied_process import CopiedProcess
from headrace.settings.environment import Environment

_LOG_TAIL_BYTES = 2048
# -P keeps the current folder off the path of modules: a folder of data must not be able to replace one of ours.
SUPERVISOR = (sys.executable, "-P", "-m", "headrace.roles.supervision.supervisor")
"""The program that looks after a mount."""


@dataclass(frozen=True, slots=True)
class LaunchedMount:
    """A mount that begins in the background: the process that becomes its supervisor, and where its answer comes."""

    process: subprocess.Popen[bytes] | CopiedProcess
    answer_descriptor: int
    log_file: Path | None
    mask: set[signal.Signals | int] | None = None
    """The signals that were blocked before some were for the start; those are heard in `wait`."""

    def wait(self) -> Answer:
        """Returns when the tree is mounted; raises what kept it from that. An interrupt of this ends the mount."""
        try:
            if self.mask is not None:
                signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
            _wait_for(self.answer_descriptor)
            answer = read_answer(self.answer_descriptor)
        except BaseException:
            self.process.terminate()
            raise
        if answer is None:
            raise _ended_in_silence(self.process.wait(), self.log_file)
        if answer.error_kind is not None:
            self.process.wait()
        elif isinstance(self.process, subprocess.Popen):
            # A process that serves outlives us; we do not wait for it, and say so to the interpreter.
            self.process.returncode = 0
        return answer.raise_if_failed()


def launch(spec: MountSpec, environment: Environment) -> LaunchedMount:
    """Starts another program, whose words and variables hold no credential, whatever ours hold."""
    raise_file_limit()
    spec_descriptor = spec.to_descriptor()
    answer_descriptor, their_descriptor = os.pipe()
    descriptors = (spec_descriptor, their_descriptor)
    try:
        process = subprocess.Popen(
            [*SUPERVISOR, str(spec.mountpoint), *map(str, descriptors), *_keeper_words(spec)],
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if spec.log_file else None,
            env=_environment(spec, environment),
            cwd="/",
            start_new_session=True,
        )
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return LaunchedMount(process, answer_descriptor, spec.log_file)


def become(spec: MountSpec, environment: Environment) -> NoReturn:
    """Turns this process into the supervisor; its old arguments, credentials among them, are gone with it."""
    _become([*SUPERVISOR, str(spec.mountpoint)], spec, environment, _keeper_words(spec))


def serve_role(
    role: str, label: str, spec: ProcessSpec, environment: Environment, words: Sequence[str]
) -> int:
    """Serves as a process of this role to its end; the exit code. Variables that hold credentials are unset. Where
    `words`, those of this process, or other variables show one, it becomes another program; `label` is what process
    listings show then.
    """
    environment = hide_credentials(spec, environment)
    if shows_credential(spec, environment, words):
        _become([sys.executable, "-P", "-m", f"headrace.roles.processes.{role}", label], spec, environment)
    raise_file_limit()
    begin: Callable[[ProcessSpec], int] = importlib.import_module(f"headrace.roles.processes.{role}").begin
    return begin(spec)


def raise_file_limit() -> None:
    """Lets this process, and those that it starts, open as many files as it may: usual limits are far below our own."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _wait_for(descriptor: int) -> None:
    """Returns when it can be read from. Ctrl-C is heard even if it comes just as the wait begins, when Python has
    looked for signals for the last time.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    heard, told = os.pipe()
    os.set_blocking(told, False)
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    try:
        while descriptor not in select.select((descriptor, heard), (), ())[0]:
            os.read(heard, 64)
    finally:
        signal.set_wakeup_fd(before)
        os.close(heard)
        os.close(told)


def _keeper_words(spec: MountSpec) -> list[str]:
    if spec.keeper is None:
        return []
    return ["keeper", str(spec.keeper), str(spec.config.state_directory)]


def _become(
    program: Sequence[str], spec: ProcessSpec, environment: Environment, after: Sequence[str] = ()
) -> NoReturn:
    raise_file_limit()
    descriptor = spec.to_descriptor()
    os.set_inheritable(descriptor, True)
    words = [*program, str(descriptor), *after]
    os.execve(sys.executable, words, _environment(spec, environment))  # noqa: S606 - our own program


def _environment(spec: ProcessSpec, environment: Environment) -> dict[str, str]:
    """The variables for the processes of a mount, less the credentials that its spec holds already."""
    secrets = credential_variables(spec, environment)
    return {name: value for name, value in environment.variables.items() if name not in secrets}


def _ended_in_silence(code: int, log_file: Path | None) -> EngineError:
    end = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
    hint = (
        f"its log is {log_file}{_last_line(log_file)}" if log_file else "run it with --foreground to see why"
    )
    return EngineError.of(f"the mount process {end} before it was ready", hint=hint)


def _last_line(log_file: Path) -> str:
    try:
        with log_file.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - _LOG_TAIL_BYTES, 0))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return f"; it ends: {lines[-1]}" if lines else ""
