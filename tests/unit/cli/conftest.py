from __future__ import annotations

import pytest
from memory_jobs import MemoryJobBackend, dataset_claim

from headrace.cli.arena import backend_choice, waiting
from headrace.cli.main import main


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> MemoryJobBackend:
    """What `arena` speaks to here: a backend in memory, with the claims of the seeds."""
    backend = MemoryJobBackend(
        volumes=[dataset_claim(name) for name in ("imagenet", "nfs-imagenet", "fluid-imagenet")]
    )
    monkeypatch.setattr(waiting, "_FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(waiting, "_LONGEST_PAUSE_S", 0.0)
    for name in ("local", "kubernetes"):
        monkeypatch.setitem(backend_choice.OPENERS, name, lambda _environment, _kubeconfig: backend)
    monkeypatch.setenv("HEADRACE_JOBS_BACKEND", "kubernetes")
    return backend


@pytest.fixture
def headrace(namespace: str, capsys: pytest.CaptureFixture[str]):
    """Runs a command in the namespace of the test; its code, output and talk."""

    def run(*words: str, inside: bool = True) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*words, *(["-n", namespace] if inside else [])])
        return code, *capsys.readouterr()

    return run
