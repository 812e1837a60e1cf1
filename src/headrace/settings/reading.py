"""The settings of a role: what the command line gives, else the environment, else the file, else the default."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from headrace.errors import ConfigError
from headrace.settings.environment import Environment
from headrace.settings.faults import fault_hint, fault_text, first_fault
from headrace.settings.jindofs import is_properties, read_properties
from headrace.settings.model import Model
from headrace.settings.roles import ROLES, OriginSettings, RoleSettings
from headrace.settings.yaml_files import Document, read_document
from headrace.settings.yaml_streams import Place

_R = TypeVar("_R", bound=RoleSettings)

SHARED_VARIABLES: Mapping[str, str] = {"master": "HEADRACE_MASTER", "token_file": "HEADRACE_TOKEN_FILE"}
"""Settings that mean the same for every role have one variable for all of them, too."""


def role_settings(
    role: type[_R], file: Path | None, environment: Environment, **given: Any
) -> tuple[_R, list[str]]:
    """The settings and what the person should be warned of. `given` are those that are not `None`."""
    document, warnings = _document(role, file)
    content = dict(document.content) if document else {}
    values = (
        content | _from_environment(role, environment) | {k: v for k, v in given.items() if v is not None}
    )
    try:
        return role.model_validate(values), warnings
    except ValidationError as error:
        raise _explain(error, role, document) from None


def variable_of(role: str, field: str) -> str:
    """`HEADRACE_WORKER_LISTEN`."""
    return f"HEADRACE_{role}_{field}".upper()


def settable_by_variable(model: type[RoleSettings]) -> list[str]:
    """The settings that fit a variable: texts, numbers, switches, and lists of words (parted by white space)."""
    nested = {"origins", "source", "target", "tls"}
    return [name for name in model.model_fields if name not in nested]


def _document(role: type[RoleSettings], file: Path | None) -> tuple[Document | None, list[str]]:
    if file is None:
        return None, []
    if not is_properties(file):
        return read_document(file), []
    namespaces = read_properties(file)
    content: dict[str, Any] = {}
    if "origins" in role.model_fields:
        content["origins"] = [namespace.as_origin() for namespace in namespaces.namespaces]
    if "mountpoint" in role.model_fields:
        content["mountpoint"] = namespaces.mountpoint
    return Document(file, content, {}), namespaces.warnings


def _from_environment(role: type[RoleSettings], environment: Environment) -> dict[str, Any]:
    name = next(name for name, model in ROLES.items() if model is role)
    found: dict[str, Any] = {}
    for field in settable_by_variable(role):
        own = environment.get(variable_of(name, field))
        text = own or environment.get(SHARED_VARIABLES.get(field, ""))
        if text is not None:
            found[field] = text.split() if _is_list(role, field) else text
    return found


def _is_list(role: type[RoleSettings], field: str) -> bool:
    return typing.get_origin(role.model_fields[field].annotation) is tuple


def _explain(error: ValidationError, role: type[Model], document: Document | None) -> ConfigError:
    """The first fault as one line with its place, without the value, which may be a credential."""
    first = first_fault(error)
    place: Place = tuple(first["loc"])
    key = ".".join(str(part) for part in place)
    where = f"{document.where(place)}: " if document and _stands_in(document, place) else ""
    if first["type"] != "extra_forbidden":
        return ConfigError.of(
            f"{where}setting '{key}': {fault_text(first)}" if key else f"{where}{fault_text(first)}",
            hint=fault_hint(first),
        )
    known = _model_at(role, place[:-1]).model_fields
    nearest = difflib.get_close_matches(str(place[-1]), known, n=1, cutoff=0.5)
    hint = f"did you mean '{nearest[0]}'?" if nearest else f"known are {', '.join(known)}"
    return ConfigError.of(f"{where}unknown setting '{key}'", hint=hint)


def _stands_in(document: Document, place: Place) -> bool:
    return not place or any(document.lines.get(place[:length]) for length in range(1, len(place) + 1))


def _model_at(model: type[Model], place: Place) -> type[Model]:
    """The model of a nested place: `origins.0` is an `OriginSettings`."""
    for part in place:
        if part == "origins":
            model = OriginSettings
        elif isinstance(part, str) and part in model.model_fields:
            model = _model_in(model.model_fields[part].annotation) or model
    return model


def _model_in(annotation: Any) -> type[Model] | None:
    candidates = [annotation, *typing.get_args(annotation)]
    return next((each for each in candidates if isinstance(each, type) and issubclass(each, Model)), None)
