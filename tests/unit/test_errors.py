from __future__ import annotations

import errno
import pickle
import re
from pathlib import Path

import pytest

from headrace import exits
from headrace.errors import CLASSES, ConfigError, HeadraceError, MissingFileError

TABLE = Path(__file__).parents[2] / "crates" / "engine" / "src" / "error.rs"
ROW = re.compile(r'ErrorKind::(\w+),\s*libc::(\w+),\s*"(\w+)"')
BUILT_IN = {
    "FileNotFoundError": "MissingFileError",
    "PermissionError": "RefusedError",
    "TimeoutError": "DeadlineError",
    "IsADirectoryError": "DirectoryInsteadError",
    "NotADirectoryError": "NotDirectoryInsteadError",
}


def engine_rows() -> list[tuple[str, str, str]]:
    return ROW.findall(TABLE.read_text())


def test_the_engine_has_a_table() -> None:
    assert len(engine_rows()) >= 16


@pytest.mark.parametrize(("kind", "number", "exception"), engine_rows())
def test_each_kind_of_the_engine_has_its_class_errno_and_exit_code(
    kind: str, number: str, exception: str
) -> None:
    error = CLASSES[kind].of("x")
    assert type(error).__name__ == BUILT_IN.get(exception, exception)
    assert error.errno == getattr(errno, number)
    assert error.kind == kind
    assert kind in exits.known_kinds()


def test_no_class_is_without_a_kind_of_the_engine() -> None:
    assert set(CLASSES) == {kind for kind, _, _ in engine_rows()} == set(exits.known_kinds())


def test_errors_are_also_those_of_python() -> None:
    assert issubclass(MissingFileError, FileNotFoundError)
    assert issubclass(ConfigError, ValueError)


def test_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(MissingFileError.of("a is not there", hint="look")))
    assert (type(error), str(error), error.hint, error.errno) == (
        MissingFileError,
        "a is not there",
        "look",
        errno.ENOENT,
    )


@pytest.mark.parametrize(
    "error", [ConfigError.of("two\nlines", hint="a\n b"), ValueError("plain"), HeadraceError.of("x")]
)
def test_complaint_is_one_line_each(error: Exception) -> None:
    lines = exits.complaint(error).splitlines()
    assert lines[0].startswith("error: ")
    assert all(line.startswith("hint: ") for line in lines[1:])
    assert len(lines) <= 2


def test_exit_codes_are_distinct_and_explained() -> None:
    assert len({int(code) for code in exits.ExitCode}) == len(list(exits.ExitCode))
    assert all(code.meaning for code in exits.ExitCode)
    assert exits.exit_code(KeyboardInterrupt()) == 130
