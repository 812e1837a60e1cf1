"""The mount process around a double of the engine, in this process: signals, registry, refresh, end."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import native_double
import pytest

from headrace.engine.registry import Registry
from headrace.errors import BusyError
from headrace.roles.messages import Answer, MountSpec, read_answer
from headrace.roles.processes.mount import MountProcess
from headrace.settings.dataset import MountSettings
from headrace.settings.engine import EngineConfig
from headrace.settings.origins import LocalOrigin, OriginMount


@pytest.fixture
def spec(data: Path, tmp_path: Path) -> MountSpec:
    origin = OriginMount(origin=LocalOrigin(directory=data))
    config = EngineConfig(name="shop", origins=(origin,), state_directory=tmp_path / "state")
    return MountSpec(
        config=config,
        mountpoint=tmp_path / "mnt",
        settings=MountSettings(metrics_address="127.0.0.1:0"),
        registry_directory=tmp_path / "run",
        log_file=None,
    )


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """The handlers of the test run come back."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def mounts(double: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> list[native_double.DoubleMount]:
    """The mounts that were made; their `wait` ends soon after they are unmounted."""
    made: list[native_double.DoubleMount] = []
    original = double.Engine.mount

    def mount(self, mountpoint: str, options: str) -> native_double.DoubleMount:
        made.append(original(self, mountpoint, options))
        return made[-1]

    def wait(self, timeout_s: float) -> bool:
        while self.mounted:
            time.sleep(0.005)
        return True

    monkeypatch.setattr(double.Engine, "mount", mount)
    monkeypatch.setattr(native_double.DoubleMount, "wait", wait)
    return made


def run(spec: MountSpec, during: Callable[[], None]) -> tuple[int, Answer | None]:
    """Runs the process; `during` happens in a thread once it has answered."""
    reader, writer = os.pipe()
    answers: list[Answer | None] = []

    def meanwhile() -> None:
        answers.append(read_answer(reader))
        during()

    thread = threading.Thread(target=meanwhile)
    thread.start()
    code = MountProcess(spec).run(writer)
    thread.join()
    return code, answers[0]


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def test_mount_is_registered_while_it_serves_and_ends_on_a_signal(
    spec: MountSpec, mounts: list[native_double.DoubleMount], double: SimpleNamespace
) -> None:
    registered = []

    def during() -> None:
        registered.extend(Registry(spec.registry_directory).entries())
        send(signal.SIGTERM)

    code, answer = run(spec, during)
    assert code == 0
    assert answer is not None
    assert (answer.mode, answer.files, answer.size_bytes) == ("classic", 3, 17)
    assert [(entry.name, entry.mountpoint) for entry in registered] == [("shop", str(spec.mountpoint))]
    assert Registry(spec.registry_directory).entries() == []
    assert not mounts[0].mounted
    assert double.Engine.opened[0].closed


def test_end_from_outside_ends_the_process(
    spec: MountSpec, mounts: list[native_double.DoubleMount], double: SimpleNamespace
) -> None:
    code, _ = run(spec, lambda: mounts[0].unmount(force=True))
    assert code == 0
    assert double.Engine.opened[0].closed


def test_busy_mount_is_detached(spec: MountSpec, mounts: list[native_double.DoubleMount]) -> None:
    def during() -> None:
        mounts[0].busy = True
        send(signal.SIGINT)

    assert run(spec, during)[0] == 0
    assert not mounts[0].mounted


def test_hangup_takes_a_new_snapshot(
    spec: MountSpec, mounts: list[native_double.DoubleMount], double: SimpleNamespace
) -> None:
    def during() -> None:
        send(signal.SIGHUP)
        deadline = time.monotonic() + 30
        while double.Engine.opened[0].version < 2 and time.monotonic() < deadline:
            time.sleep(0.005)
        send(signal.SIGTERM)

    assert run(spec, during)[0] == 0
    assert double.Engine.opened[0].version == 2


def test_user_signal_turns_the_debug_log_on_and_off(
    spec: MountSpec, mounts: list[native_double.DoubleMount], double: SimpleNamespace
) -> None:
    levels: list[str] = []
    double.set_log = lambda level, **_: levels.append(level)

    def during() -> None:
        for count in (1, 2):
            send(signal.SIGUSR1)
            deadline = time.monotonic() + 30
            while len(levels) < count and time.monotonic() < deadline:
                time.sleep(0.005)
        send(signal.SIGTERM)

    assert run(spec, during)[0] == 0
    assert levels == ["debug", "info"]


def test_mount_that_fails_is_answered_and_leaves_nothing(
    spec: MountSpec, double: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise BusyError.of("the mountpoint is taken", hint="take another")

    monkeypatch.setattr(double.Engine, "mount", fails)
    code, answer = run(spec, lambda: None)
    assert code == 7
    assert answer is not None
    assert (answer.error_kind, answer.error, answer.hint) == (
        "Busy",
        "the mountpoint is taken",
        "take another",
    )
    assert Registry(spec.registry_directory).entries() == []
    assert double.Engine.opened[0].closed


def test_fault_in_the_foreground_is_told_on_standard_error(
    spec: MountSpec,
    double: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fails(*_: object) -> None:
        raise BusyError.of("the mountpoint is taken", hint="take another")

    monkeypatch.setattr(double.Engine, "mount", fails)
    assert MountProcess(spec).run(None) == 7
    assert "error: the mountpoint is taken\nhint: take another\n" in capfd.readouterr().err
