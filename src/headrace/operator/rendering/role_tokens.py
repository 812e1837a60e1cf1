"""The tokens of a cluster in the Secret of its dataset: each pod gets the one that allows what its role needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from headrace.control.rights import Rights, derive
from headrace.operator.rendering import role_files
from headrace.operator.rendering.naming import Names
from headrace.plan.roles import RoleKind

Content = dict[str, Any]

WHOLE_KEY, WORKER_KEY, READER_KEY = "token", "worker", "reader"
VERSION_KEY = "version"
"""The word by which the token was asked for (`TOKEN_VERSION_ANNOTATION`); not there while nobody asked for another."""

NOTES_KEY = "notes"
"""What digests of the dataset's secrets are keyed with that pods note. No pod gets it."""
KEY_OF_KIND: Mapping[RoleKind, str] = {
    RoleKind.MASTER: WHOLE_KEY,
    RoleKind.WORKER: WORKER_KEY,
    RoleKind.MOUNT: READER_KEY,
}


def token_data(token: str) -> dict[str, str]:
    """The Secret of a cluster that has this token."""
    derived = {WORKER_KEY: Rights.WORKER, READER_KEY: Rights.READER}
    made = {key: derive(SecretStr(token), rights) for key, rights in derived.items()}
    return {WHOLE_KEY: token, **{key: each.get_secret_value() for key, each in made.items()}}


def files_of(names: Names, key: str, mode: int = 0o400) -> tuple[Content, Content]:
    """The volume with one token alone, and where a container has it."""
    items = [{"key": key, "path": role_files.TOKEN_FILE.rpartition("/")[2]}]
    secret = {"secretName": names.token, "defaultMode": mode, "items": items}
    folder = role_files.TOKEN_FILE.rpartition("/")[0]
    return {"name": "token", "secret": secret}, {"name": "token", "mountPath": folder, "readOnly": True}
