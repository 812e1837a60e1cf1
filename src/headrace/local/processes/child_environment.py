"""The variables that go on to the processes that the local backend starts: a variable that a person happened to have
set must not become part of every dataset.
"""

from __future__ import annotations

from headrace.settings.environment import TOKEN_VARIABLE, Environment
from headrace.settings.origin_options import secret_variables

_PREFIX = "HEADRACE_"
_KEPT = frozenset(
    {
        "HEADRACE_RUNTIME_DIR",
        "HEADRACE_STATE_DIR",
        "HEADRACE_CACHE_DIR",
        "HEADRACE_TRUSTED_FOLDERS",
        "HEADRACE_DEBUG",
    }
)


def child_environment(environment: Environment) -> dict[str, str]:
    """The variables without credentials, and without settings of roles, which come from their own files."""
    secret = {*secret_variables(), TOKEN_VARIABLE}
    return {
        name: value
        for name, value in environment.variables.items()
        if name not in secret and (name in _KEPT or not name.startswith(_PREFIX))
    }
