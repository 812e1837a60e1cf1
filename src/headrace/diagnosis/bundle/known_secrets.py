"""The credentials that this user's programs go by, so that they are found wherever they stand; written nowhere."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from headrace.engine.profiles import files_of
from headrace.engine.secrets import read_secret, read_secret_file
from headrace.errors import HeadraceError
from headrace.settings.environment import TOKEN_VARIABLE, Environment
from headrace.settings.origin_options import is_secret, secret_variables
from headrace.settings.paths import absolute
from headrace.settings.toml_files import read_file

_LOOKS_SECRET = re.compile(r"(?i)secret|token|passw|key|credential|auth")
_USER_INFORMATION = re.compile(r"://([^/@\s]+)@")


def known_secrets(environment: Environment) -> set[str]:
    """Every one that can be read; what cannot be is passed over."""
    found: set[str] = set()
    for source in (_of_environment, _of_configuration, _of_profiles, _of_files):
        with contextlib.suppress(HeadraceError, OSError, ValueError):
            for value in source(environment):
                found.add(value)
    # A path is named in many places that tell nothing of the secret.
    return {value for value in found if value and not value.startswith("/")}


def _of_environment(environment: Environment) -> Iterator[str]:
    named = {TOKEN_VARIABLE, *secret_variables()}
    for name, value in environment.variables.items():
        if name in named or _LOOKS_SECRET.search(name):
            yield value
        for information in _USER_INFORMATION.findall(value):
            yield from (information, information.rpartition(":")[2])


def _of_configuration(environment: Environment) -> Iterator[str]:
    dataset = read_file(environment)["dataset"]
    for name, value in (dataset.get("options") or {}).items():
        if is_secret(str(name).rpartition(":")[2]) and isinstance(value, str):
            yield value
    if file := dataset.get("secret_file"):
        yield from read_secret_file(absolute(str(file)), []).values()


def _of_profiles(environment: Environment) -> Iterator[str]:
    for file in files_of(environment):
        with contextlib.suppress(OSError):
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                name, separator, value = line.partition("=")
                if separator and is_secret(name.strip().replace("aws_", "").replace("_", "")):
                    yield value.strip()


def _of_files(environment: Environment) -> Iterator[str]:
    if file := environment.get("HEADRACE_TOKEN_FILE"):
        yield read_secret(Path(file), [])
