from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.engine import native
from headrace.engine.handles import Engine
from headrace.errors import EngineError
from headrace.settings.dataset import MountSettings
from headrace.settings.engine import EngineConfig
from headrace.settings.origins import LocalOrigin, OriginMount


@pytest.fixture
def config(tmp_path: Path, data: Path) -> EngineConfig:
    origin = OriginMount(origin=LocalOrigin(directory=data))
    return EngineConfig(name="n", origins=(origin,), state_directory=tmp_path / "state")


def in_child(check) -> str:
    """What `check` answers in a forked child, as text; the child's end is this function's, too."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = check()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, str(answer).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        answer = file.read().decode()
    os.waitpid(child, 0)
    return answer


def test_open_makes_the_state_folder_for_its_owner_alone(
    double: SimpleNamespace, config: EngineConfig
) -> None:
    with Engine.open(config) as engine:
        assert engine.role == "owner"
        assert config.state_directory.stat().st_mode & 0o777 == 0o700
    assert double.Engine.opened[0].closed


def test_closed_engine_refuses_further_calls(double: SimpleNamespace, config: EngineConfig) -> None:
    engine = Engine.open(config)
    engine.close()
    engine.close()
    with pytest.raises(ValueError, match="closed"):
        engine.stat(b"")


def test_forked_child_gets_an_engine_of_its_own(double: SimpleNamespace, config: EngineConfig) -> None:
    engine = Engine.open(config)
    assert in_child(lambda: engine.stat(b"train/one.jpg").size) == "5"
    assert engine.stat(b"train/one.jpg").size == 5


def test_forked_child_of_an_attached_engine_attaches(double: SimpleNamespace, config: EngineConfig) -> None:
    Engine.open(config)
    engine = Engine.attach(config.state_directory)
    assert in_child(lambda: engine.role) == "attached"


def test_fork_while_another_thread_holds_the_lock_does_not_hang(
    double: SimpleNamespace, config: EngineConfig
) -> None:
    engine = Engine.open(config)
    held, free = threading.Event(), threading.Event()

    def hold() -> None:
        with engine._lock:
            held.set()
            free.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    assert in_child(lambda: engine.stat(b"").kind) == "directory"
    free.set()
    thread.join()


def test_engine_closed_in_the_parent_stays_closed_in_the_child(
    double: SimpleNamespace, config: EngineConfig
) -> None:
    engine = Engine.open(config)
    engine.close()
    assert in_child(lambda: engine.stat(b"")).startswith("ValueError")


def test_child_may_close_without_touching_the_parents_engine(
    double: SimpleNamespace, config: EngineConfig
) -> None:
    engine = Engine.open(config)
    assert in_child(engine.close) == "None"
    assert not double.Engine.opened[0].closed


def test_mount_options_cross_as_the_engine_names_them(double: SimpleNamespace, config: EngineConfig) -> None:
    with Engine.open(config) as engine:
        mount = engine.mount(Path("/mnt/x"), MountSettings(nonempty=True))
    assert mount.options == {"mode": "auto", "allow_other": False, "allow_nonempty": True}


def test_report_of_another_version_is_understood(double: SimpleNamespace, config: EngineConfig) -> None:
    with Engine.open(config) as engine:
        report = engine.status()
        assert (report.snapshot.files, report.reads.hit_ratio, report.corrupt_blocks) == (3, 0.75, 0)
        assert "newer" in engine.native.status()
        assert "corrupt_blocks" not in json.loads(engine.native.status())


def test_engine_that_was_not_built_is_an_error_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> None:
        raise ImportError("no such module")

    monkeypatch.setattr(native, "import_module", absent)
    with pytest.raises(EngineError, match="cannot be loaded") as caught:
        native.load.__wrapped__()
    assert "make build" in (caught.value.hint or "")


def test_debug_build_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(is_debug_build=lambda: True)
    monkeypatch.setattr(native, "import_module", lambda _: module)
    with pytest.warns(UserWarning, match="debug build"):
        native.load.__wrapped__()
