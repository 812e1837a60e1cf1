from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import headrace
from headrace.settings import environment
from headrace.settings.environment import HEADRACE_VARIABLES, Environment
from headrace.settings.reading import settable_by_variable, variable_of
from headrace.settings.roles import ROLES

PACKAGE = Path(headrace.__file__).parent


def test_only_one_module_reads_environment_variables() -> None:
    readers = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb"):
                readers.add(file.relative_to(PACKAGE).as_posix())
    readers = {name for name in readers if not name.startswith("testing/")}
    assert readers == {"settings/environment.py"}


def test_every_own_variable_is_in_the_table() -> None:
    used = set()
    for file in PACKAGE.rglob("*.py"):
        used |= set(re.findall(r"HEADRACE_[A-Z_]*[A-Z]", file.read_text()))
    used -= {"HEADRACE_VARIABLES"}
    own = {name for name in used if not name.startswith("HEADRACE_TEST")}
    # One a dataset, told of under the name that stands for all.
    own -= {"HEADRACE_DATASET", "HEADRACE_DATASET_MY_SET"}
    # Each setting of a role has a variable; those of the pages of reference are made from the models.
    own -= {
        variable_of(role, field) for role, model in ROLES.items() for field in settable_by_variable(model)
    }
    assert own <= set(HEADRACE_VARIABLES) | {"HEADRACE_"}
    assert set(HEADRACE_VARIABLES) <= own


def test_folders_of_an_ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.os, "geteuid", lambda: 1000)
    plain = Environment({"HOME": "/home/u"})
    assert plain.state_directory == Path("/home/u/.local/state/headrace")
    assert plain.cache_directory == Path("/home/u/.cache/headrace")
    assert plain.runtime_directory == Path("/home/u/.local/state/headrace/run")
    assert Environment({"HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/1"}).runtime_directory == Path(
        "/run/user/1/headrace"
    )


def test_folders_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.os, "geteuid", lambda: 0)
    assert Environment({"HOME": "/root"}).state_directory == Path("/var/lib/headrace")
    assert Environment({"HOME": "/root", "XDG_RUNTIME_DIR": "/x"}).runtime_directory == Path("/run/headrace")


def test_empty_variable_counts_as_unset() -> None:
    assert (
        Environment({"AWS_REGION": "", "AWS_DEFAULT_REGION": "r"}).first(["AWS_REGION", "AWS_DEFAULT_REGION"])
        == "r"
    )
    assert not Environment({"HEADRACE_DEBUG": "0"}).debug
    assert Environment({"HEADRACE_DEBUG": "1"}).debug


def test_environment_does_not_show_its_variables() -> None:
    assert "PLANTED" not in repr(Environment({"AWS_SECRET_ACCESS_KEY": "PLANTED"}))
