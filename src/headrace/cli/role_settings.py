"""The settings of a role, for its verb: the command line over the configuration file over the environment."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from headrace.cli import printer
from headrace.settings.environment import Environment
from headrace.settings.paths import absolute
from headrace.settings.reading import role_settings
from headrace.settings.roles import RoleSettings

_R = TypeVar("_R", bound=RoleSettings)


def settings_of_role(role: type[_R], file: Path | None, environment: Environment, **given: object) -> _R:
    """The settings of a role. Warns of what the person should know of them."""
    given.setdefault("log_level", environment.get("HEADRACE_LOG"))
    settings, warnings = role_settings(role, absolute(file) if file else None, environment, **given)
    for warning in warnings:
        printer.warn(warning)
    return settings
