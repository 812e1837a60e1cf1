"""The exposure of credentials by a process: its words and variables stay readable in /proc until it is another program.

Variables can be overwritten where /proc reads them, so that a process goes on without them.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from headrace.roles.messages import ProcessSpec
from headrace.settings.environment import TOKEN_VARIABLE, Environment, forget
from headrace.settings.model import secrets_in
from headrace.settings.origin_options import secret_variables


def credential_variables(spec: ProcessSpec, environment: Environment) -> frozenset[str]:
    """The names of variables that hold credentials: those that are for them, and those whose value is one of this spec,
    as `env:NAME` has it taken from a variable.
    """
    secrets = frozenset(secrets_in(spec))
    taken = {name for name, value in environment.variables.items() if value in secrets}
    return secret_variables() | {TOKEN_VARIABLE} | taken


def shows_credential(spec: ProcessSpec, environment: Environment, words: Iterable[str]) -> bool:
    """True if a process with these words and variables shows a credential, of this spec or in a variable for one."""
    if any(environment.get(name) for name in credential_variables(spec, environment)):
        return True
    shown = [text for each in (*words, *environment.variables.values()) for text in (each, unquote(each))]
    return any(secret in text for secret in secrets_in(spec) for text in shown)


def hide_credentials(spec: ProcessSpec, environment: Environment) -> Environment:
    """Unsets the variables of this process that hold credentials, also where /proc shows them: what is left of
    `environment`, which is all of it where that cannot be done. Nobody may be reading variables meanwhile.
    """
    names = credential_variables(spec, environment) & environment.variables.keys()
    if not names:
        return environment
    # Where /proc is not what Linux has there, the process becomes another program instead.
    if not forget(names):
        return environment
    return Environment({name: value for name, value in environment.variables.items() if name not in names})
