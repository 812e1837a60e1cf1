"""Whether a process shows a credential: its words and variables stay readable in /proc until it is another program."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from headrace.roles.messages import ProcessSpec
from headrace.settings.environment import TOKEN_VARIABLE, Environment
from headrace.settings.model import secrets_in
from headrace.settings.origin_options import secret_variables


def credential_variables() -> frozenset[str]:
    """The names of variables that hold credentials."""
    return secret_variables() | {TOKEN_VARIABLE}


def holds_credentials(environment: Environment) -> bool:
    """Whether one of these is set."""
    return any(environment.get(name) for name in credential_variables())


def shows_credential(spec: ProcessSpec, environment: Environment, words: Iterable[str]) -> bool:
    """Whether a process with these words and variables shows a credential, of this spec or in a variable for one."""
    if holds_credentials(environment):
        return True
    shown = [text for each in (*words, *environment.variables.values()) for text in (each, unquote(each))]
    return any(secret in text for secret in secrets_in(spec) for text in shown)
