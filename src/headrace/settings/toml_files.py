"""The one reader of the configuration file: TOML with the tables `[dataset]`, `[dataset.options]` and `[mount]`."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from headrace.errors import ConfigError
from headrace.settings.dataset import DatasetSettings, MountSettings
from headrace.settings.environment import Environment
from headrace.settings.faults import fault_hint, fault_text, first_fault
from headrace.settings.model import Model

_M = TypeVar("_M", bound=Model)

TABLES: Mapping[str, type[Model]] = {"dataset": DatasetSettings, "mount": MountSettings}
"""The tables of the file."""


def read_file(environment: Environment) -> dict[str, dict[str, Any]]:
    """The tables of the first configuration file that exists; empty tables when there is none."""
    tables: dict[str, dict[str, Any]] = {name: {} for name in TABLES}
    path = next((path for path in environment.config_files if path.is_file()), None)
    if path is None:
        if named := environment.get("HEADRACE_CONFIG"):
            raise ConfigError.of(f"{named} is not there", hint="check HEADRACE_CONFIG, or unset it")
        return tables
    for name, table in _parse(path).items():
        if name not in TABLES or not isinstance(table, dict):
            raise ConfigError.of(
                f"{path}: unknown table or key '{name}'", hint="known are [dataset] and [mount]"
            )
        tables[name] = table
    return tables


def dataset_settings(file: Mapping[str, Any], **given: Any) -> DatasetSettings:
    """The settings of a dataset: what was `given` (not `None`), else what the file says, else the default."""
    options = {**file.get("options", {}), **(given.pop("options", None) or {})}
    return _merge(DatasetSettings, file, {**given, "options": options})


def mount_settings(file: Mapping[str, Any], **given: Any) -> MountSettings:
    """The settings of a mount, by the same rule."""
    return _merge(MountSettings, file, given)


def _merge(model: type[_M], file: Mapping[str, Any], given: Mapping[str, Any]) -> _M:
    values = {**file, **{key: value for key, value in given.items() if value is not None}}
    try:
        return model(**values)
    except ValidationError as error:
        raise explain(error, model) from None


def explain(error: ValidationError, model: type[Model]) -> ConfigError:
    """The first fault as one line that does not repeat the value, which may be a credential."""
    first = first_fault(error)
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] != "extra_forbidden":
        return ConfigError.of(f"setting '{key}': {fault_text(first)}", hint=fault_hint(first))
    nearest = difflib.get_close_matches(key, model.model_fields, n=1, cutoff=0.5)
    return ConfigError.of(
        f"unknown setting '{key}'", hint=f"did you mean '{nearest[0]}'?" if nearest else None
    )


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError.of(f"{path} is not valid TOML: {error}") from None
    except OSError as error:
        raise ConfigError.of(f"cannot read {path}: {error.strerror}") from None
