"""Option values that stand somewhere else: in a file, in the environment, in a secret file, or in a person's head.

The order of weight is that of the command line over the secret file. Nothing here repeats a value in an error.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import ConfigError
from headrace.settings.environment import Environment
from headrace.settings.origin_options import is_secret
from headrace.settings.paths import absolute

Ask = Callable[[str], str]
"""Asks a person for the value of the named option, without showing it."""

_LARGEST_FILE_BYTES = 1 << 20


@dataclass
class Resolved:
    """Options with their values in clear, and what the person should be warned of."""

    options: dict[str, str] = field(repr=False)
    warnings: list[str]


def parse_options(words: Iterable[str]) -> dict[str, str]:
    """`KEY=VALUE` words as a dictionary; a word without `=` is a flag that is set."""
    options: dict[str, str] = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not key.strip():
            raise ConfigError.of("an option has no name", hint="write --option KEY=VALUE")
        if key in options:
            raise ConfigError.of(f"option '{key}' is given twice")
        options[key.strip()] = value if separator else "true"
    return options


def resolve(
    given: Mapping[str, str], secret_file: Path | None, environment: Environment, ask: Ask | None = None
) -> Resolved:
    """All options, with `@FILE`, `env:NAME` and `prompt` replaced by what they stand for.

    `@@text` is the text `@text` itself.
    """
    resolved = Resolved({}, [])
    if secret_file is not None:
        resolved.options.update(read_secret_file(absolute(secret_file), resolved.warnings))
    for spelling, value in given.items():
        resolved.options[spelling] = _value(spelling, value, environment, ask, resolved.warnings)
    return resolved


def plain_secrets(given: Mapping[str, str]) -> list[str]:
    """The options whose credential stands in clear in `given`."""
    return [
        spelling
        for spelling, value in given.items()
        if is_secret(spelling.rpartition(":")[2]) and not _is_reference(value)
    ]


def read_secret_file(path: Path, warnings: list[str]) -> dict[str, str]:
    """The options in a JSON object, in `KEY=VALUE` (or `KEY: VALUE`) lines, or in a folder with a file for each."""
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
        return {file.name: read_secret(file, warnings) for file in files}
    text = read_secret(path, warnings)
    return _from_json(path, text) if text.startswith("{") else _from_lines(path, text)


def read_secret(path: Path, warnings: list[str]) -> str:
    """The text of a file without the white space around it; warns when every user can read it."""
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(path.stat().st_mode) & stat.S_IROTH:
                warnings.append(f"{path} can be read by every user of this machine (chmod 600 {path})")
            content = file.read(_LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError.of(f"cannot read the secret file {path}: {error.strerror}") from None
    if len(content) > _LARGEST_FILE_BYTES:
        raise ConfigError.of(f"the secret file {path} is larger than {_LARGEST_FILE_BYTES} bytes")
    try:
        return content.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise ConfigError.of(f"the secret file {path} is not text") from None


def is_file(value: str) -> bool:
    """True if the option's value stands in a file: `@FILE`."""
    return value.startswith("@") and not value.startswith("@@")


def _is_reference(value: str) -> bool:
    return value == "prompt" or value.startswith("env:") or is_file(value)


def _value(spelling: str, value: str, environment: Environment, ask: Ask | None, warnings: list[str]) -> str:
    if value.startswith("@@"):
        return value[1:]
    if value.startswith("@"):
        return read_secret(absolute(value[1:]), warnings)
    if value.startswith("env:"):
        found = environment.get(value[4:])
        if found is None:
            raise ConfigError.of(
                f"option '{spelling}' is to come from the variable {value[4:]}, which is not set"
            )
        return found
    if value == "prompt":
        if ask is None:
            raise ConfigError.of(
                f"option '{spelling}' is to be asked for, but there is nobody to ask",
                hint="run it in a terminal, or use --secret-file",
            )
        return ask(spelling)
    return value


def _from_json(path: Path, text: str) -> dict[str, str]:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        # The message of the decoder says where, and never what.
        raise ConfigError.of(f"{path} is not valid JSON: line {error.lineno} column {error.colno}") from None
    if not all(isinstance(value, str) for value in content.values()):
        raise ConfigError.of(f"{path}: every value must be a text", hint='write {"fs.oss.accessKeyId": "…"}')
    return dict(content)


def _from_lines(path: Path, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith(("#", "!")):
            continue
        places = [place for place in (line.find("="), line.find(":")) if place > 0]
        if not places:
            raise ConfigError.of(f"{path}: line {number} is not KEY=VALUE")
        options[line[: min(places)].strip()] = line[min(places) + 1 :].strip()
    return options
