"""Models cost their process nothing before they are used, and are built by one thread at a time."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from headrace.process.deferred_model import DeferredModel

_THREADS = 4
# In a process of its own: in this one, other tests have used some.
_BUILT_AT_IMPORT = """
import importlib
from pydantic import BaseModel
for role in ("mount", "worker", "master", "copy"):
    importlib.import_module(f"headrace.roles.processes.{role}")
importlib.import_module("headrace.local.supervisor")
def all_of(base):
    for each in base.__subclasses__():
        yield each
        yield from all_of(each)
ours = [each for each in all_of(BaseModel) if each.__module__.startswith("headrace.")]
print(len(ours), *sorted(each.__name__ for each in ours if each.__pydantic_complete__))
"""


def test_the_modules_of_the_roles_build_no_model() -> None:
    run = subprocess.run([sys.executable, "-c", _BUILT_AT_IMPORT], capture_output=True, text=True, check=True)
    count, *built = run.stdout.split()
    assert int(count) > 100
    assert built == []


def test_threads_that_use_a_model_at_the_same_time_for_the_first_time_all_can() -> None:
    together = Barrier(_THREADS)

    class Part(DeferredModel):
        number: int = 0

    class Whole(DeferredModel):
        parts: dict[str, Part] = {}

    def use(number: int) -> int:
        together.wait()
        model = Whole.model_validate({"parts": {"a": {"number": number}}})
        return Whole.model_validate_json(model.model_dump_json()).parts["a"].number

    with ThreadPoolExecutor(_THREADS) as pool:
        assert list(pool.map(use, range(_THREADS))) == list(range(_THREADS))
