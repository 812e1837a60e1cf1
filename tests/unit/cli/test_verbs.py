from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.cli import printer
from headrace.cli.main import main
from headrace.cli.progress import duration, line
from headrace.engine.registry import Registry
from headrace.engine.registry_entry import own_entry
from headrace.engine.status import JobReport
from headrace.errors import UnsupportedError
from headrace.exits import ExitCode
from headrace.settings.environment import Environment


@pytest.fixture
def words(data: Path, tmp_path: Path) -> list[str]:
    """The TARGET of a command that reaches the data without a mount."""
    return [str(data), "--cache", f"{tmp_path}/cache:1Gi"]


@pytest.fixture
def mounted(double: SimpleNamespace, data: Path, tmp_path: Path) -> SimpleNamespace:
    """A registered mount at /mnt/shop."""
    assert main(["ls", str(data), "--cache", f"{tmp_path}/cache:1Gi"]) == 0
    state = double.Engine.opened[0].config["state_directory"]
    entry = own_entry(
        name="shop", mountpoint="/mnt/shop", state_directory=state, origins=("s3://b/shop",), mode="classic"
    )
    Registry(Environment.current().runtime_directory).add(entry)
    double.Engine.opened.clear()
    return double


def test_ls_lists_names_sizes_and_json(
    double: SimpleNamespace, words: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["ls", *words]) == 0
    assert capfdbinary.readouterr().out == b"readme.txt\ntrain/\n"
    assert main(["ls", *words, "-l", "--", "train"]) == 0
    long = capfdbinary.readouterr().out.decode().splitlines()
    assert [line.split()[0] for line in long] == ["-", "5B"]
    assert main(["ls", *words, "--json", "--", "train/one.jpg"]) == 0
    assert json.loads(capfdbinary.readouterr().out)[0]["size_bytes"] == 5


def test_warm_is_complete_or_says_so(
    double: SimpleNamespace,
    words: list[str],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert main(["warm", *words, "--", "train", "/readme.txt"]) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("warm: complete: 1 files, 10B in 0s (0B from the origin)")
    assert double.Engine.opened[0].warmed == [[b"train", b"readme.txt"]]
    assert double.Engine.opened[0].closed


def test_warm_that_lacks_something_fails(
    mounted: SimpleNamespace, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = {"state": "done", "done_bytes": 5, "total_bytes": 10, "done_files": 0, "total_files": 1}
    errors = [{"path": "train/one.jpg", "message": "the object changed since the snapshot"}]
    original = mounted.Engine.warm

    def warm(self, paths):
        self.job = {**job, "errors": errors}
        return original(self, paths)

    monkeypatch.setattr(mounted.Engine, "warm", warm)
    capfd.readouterr()
    assert main(["warm", "/mnt/shop/train", "--json", "one.jpg", "/mnt/shop/readme.txt"]) == 11
    out, err = capfd.readouterr()
    answer = json.loads(out)
    assert (answer["complete"], answer["done_bytes"]) == (False, 5)
    assert "error: train/one.jpg: the object changed since the snapshot\n" in err
    assert "warm: incomplete: 0 files, 5B in 0s of 1 files, 10B; done\n" in err
    assert mounted.Engine.opened[0].warmed == [[b"train/one.jpg", b"readme.txt"]]


def test_interrupted_warm_up_is_cancelled(
    mounted: SimpleNamespace, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = mounted.Engine.warm

    def warm(self, paths):
        self.stuck, self.job["state"] = True, "running"
        return original(self, paths)

    monkeypatch.setattr(mounted.Engine, "warm", warm)
    assert main(["warm", "shop"]) == 130
    assert mounted.Engine.opened[0].job["state"] == "cancelled"
    assert "cancelled; what is done stays done" in capfd.readouterr().err


def test_sync_names_paths_from_the_top_of_the_dataset(
    mounted: SimpleNamespace, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["sync", "shop"]) == 0
    capfd.readouterr()
    assert main(["sync", "/mnt/shop", "--ours", "/mnt/shop/a/b", "--theirs", "c", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"names": 3}
    synced = [engine.synced for engine in mounted.Engine.opened if engine.synced]
    assert synced == [[([], [])], [([b"a/b"], [b"c"])]]


def test_evict_needs_to_know_what(mounted: SimpleNamespace, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    assert main(["evict", "shop"]) == 3
    assert "name what to drop, or --all" in capfd.readouterr().err
    assert main(["evict", "shop", "train", "--all"]) == 3
    assert main(["evict", "shop", "--all", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"freed_bytes": 2048}
    assert main(["evict", "shop", "train"]) == 0
    assert [engine.evicted for engine in mounted.Engine.opened if engine.evicted] == [[[b""]], [[b"train"]]]


def test_path_may_not_lead_out_of_the_mount(
    mounted: SimpleNamespace, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["evict", "/mnt/shop/../other", "x"]) in (3, 4)


def test_refresh_says_what_changed(
    mounted: SimpleNamespace, data: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = mounted.Engine.refresh

    def refresh(self):
        (data / "new").touch()
        return original(self)

    monkeypatch.setattr(mounted.Engine, "refresh", refresh)
    capfd.readouterr()
    assert main(["refresh", "/mnt/shop"]) == 0
    assert capfd.readouterr().err.startswith("refreshed shop: 1 added, 0 changed, 0 removed;")


def test_refresh_of_a_member_says_what_to_refresh(
    mounted: SimpleNamespace, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refresh(_self):
        raise UnsupportedError.of("a member of a cluster gets its list of files from the master")

    monkeypatch.setattr(mounted.Engine, "refresh", refresh)
    assert main(["refresh", "/mnt/shop"]) == ExitCode.UNSUPPORTED
    assert "hint: for a member of a cluster: headrace refresh --cluster URL" in capfd.readouterr().err


def test_status_shows_every_mount(mounted: SimpleNamespace, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    assert main(["status"]) == 0
    shown = capfd.readouterr().out
    assert shown.startswith("/mnt/shop  (shop)\n  origin      s3://b/shop\n")
    assert "  snapshot    version 1: 3 files, 17B\n" in shown
    assert "  level 0     SSD 512.00MiB of 1.00GiB  /ssd\n" in shown
    assert "  hits        75.0% of 4B read; 1B from the origin\n" in shown


def test_status_says_what_is_slow_to_list(
    mounted: SimpleNamespace, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = mounted.Engine.status

    def status(self):
        told = json.loads(original(self))
        return json.dumps({**told, "origins": [{"uri": "s3://b/shop", "notice": "one request at a time"}]})

    monkeypatch.setattr(mounted.Engine, "status", status)
    capfd.readouterr()
    assert main(["status"]) == 0
    assert "  listing     one request at a time\n" in capfd.readouterr().out


def test_status_in_json_has_mount_and_engine(
    mounted: SimpleNamespace, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    assert main(["status", "/mnt/shop", "--json"]) == 0
    (found,) = json.loads(capfd.readouterr().out)
    assert found["mountpoint"] == "/mnt/shop"
    assert found["engine"]["snapshot"]["files"] == 3
    assert found["engine"]["hit_ratio"] == 0.75


def test_status_of_an_owner_that_does_not_answer(
    mounted: SimpleNamespace, capfd: pytest.CaptureFixture[str]
) -> None:
    entry = Registry(Environment.current().runtime_directory).get("shop")
    Path(entry.state_directory, "double.json").unlink()
    capfd.readouterr()
    assert main(["status"]) == 4
    assert "  error       nothing serves" in capfd.readouterr().out
    assert main(["status", "--json"]) == 4
    assert json.loads(capfd.readouterr().out)[0]["error"]["kind"] == "NotFound"


def test_metrics_are_what_the_engine_says(
    mounted: SimpleNamespace, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    assert main(["metrics", "/mnt/shop"]) == 0
    assert capfd.readouterr().out.endswith("# EOF\n")


def test_version(double: SimpleNamespace, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert main(["--version"]) == 0
    first, second = capfd.readouterr().out.splitlines()
    assert first == second
    # A copy of the sources that is no checkout has no commit to tell of.
    assert re.fullmatch(r"headrace 0\.1\.0 \((commit [0-9a-f]{12}(-dirty)?, )?engine 9\.9\.9\)", first)


def test_names_cannot_move_the_cursor() -> None:
    assert printer.visible(b"a\x1b[2Jb\n\xff") == r"a\x1b[2Jb\n\udcff"


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0s"), (59.4, "59s"), (312, "5m12s"), (7500, "2h05m")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_progress_line_has_rate_and_time_left() -> None:
    report = JobReport(done_bytes=1 << 30, total_bytes=4 << 30, done_files=3, total_files=9)
    assert line(report, 10.0, "warm") == (
        "warm: 1.00GiB of 4.00GiB (25.0%), 3 of 9 files, 102.40MiB/s, 30s left"
    )
    assert line(JobReport(), 0.0, "warm") == "warm: 0B of 0B (100.0%), 0 of 0 files, 0B/s"
