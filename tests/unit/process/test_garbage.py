from __future__ import annotations

import subprocess
import sys

import pytest

_SAYS = "; import gc; print(gc.get_threshold()[0])"


def _said(program: str) -> str:
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("package", ["cli", "roles", "local"])
def test_programs_of_headrace_collect_seldom(package: str) -> None:
    assert int(_said(f"import headrace.{package}{_SAYS}")) > 10 * int(_said(f"pass{_SAYS}"))


def test_a_program_that_uses_the_package_keeps_its_own_way() -> None:
    assert _said(f"import headrace; headrace.open_dataset; headrace.HeadraceFileSystem{_SAYS}") == _said(
        f"pass{_SAYS}"
    )


def test_what_stands_in_rings_is_found_nevertheless() -> None:
    program = """
import gc, weakref
import headrace.cli
class Ring: pass
first = Ring(); first.itself = first
seen = weakref.ref(first); del first
kept = [[] for _ in range(250_000)]
print(seen())
"""
    assert _said(program) == "None\n"


def test_a_program_that_serves_looks_at_what_came_since_it_began() -> None:
    program = """
import gc, weakref
import headrace.roles
from headrace.process.garbage import pass_over_what_is_there
pass_over_what_is_there()
class Ring: pass
first = Ring(); first.itself = first
seen = weakref.ref(first); del first
kept = [[] for _ in range(60_000)]
print(seen(), gc.get_freeze_count() > 1000)
"""
    assert _said(program) == "None True\n"
