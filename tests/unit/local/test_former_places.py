"""A backend that runs while it is upgraded: its processes start others by the names that these had when they began."""

from __future__ import annotations

import importlib
import runpy

import pytest

FORMER = {
    "headrace.local.guard": "headrace.local.lifecycle.guard",
    "headrace.local.attendant": "headrace.local.operations.job_runner",
    "headrace.local.training.instance": "headrace.local.jobs.instance_process",
    "headrace.local.training.remote": "headrace.local.jobs.rank_launcher",
}


@pytest.mark.parametrize("former", FORMER)
def test_a_program_begins_under_its_former_name(former: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module(FORMER[former]), "main", lambda: 71)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(former, run_name="__main__")
    assert ended.value.code == 71


def test_a_guard_that_began_before_finds_how_to_start_a_supervisor() -> None:
    former = importlib.import_module("headrace.local.relaunch")
    assert former.relaunch is importlib.import_module("headrace.local.lifecycle.relaunch").relaunch
