"""Credentials as files of a pod: a folder for each origin, with a file for each option, taken from Secrets by kubelet.

The operator never writes a value that stands in a Secret anywhere else. Options that stand in clear in a Dataset go
into a Secret of the dataset's own, so that they are in no ConfigMap, no command and no environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.api.dataset import Dataset
from headrace.operator.rendering.naming import Names
from headrace.plan.roles import PlainOption, Role, SecretFile, SecretKey, plain_value

FOLDER = "/etc/headrace/secrets"

Content = dict[str, Any]


def secret_folder(number: int) -> str:
    """The folder of an origin's credentials in a pod, by its place in the list."""
    return f"{FOLDER}/{number}"


def secret_mode(role: Role) -> int:
    """The mode of secret files: for root alone, or for the group of the pod, too, where another user runs."""
    return 0o400 if role.run_as is None else 0o440


def secret_volumes(role: Role, names: Names) -> tuple[list[Content], list[Content]]:
    """Volumes and mounts of a role's secret files."""
    return file_volumes(role.secrets, names.options, secret_mode(role))


def file_volumes(
    files: Sequence[SecretFile], options: str, mode: int = 0o400
) -> tuple[list[Content], list[Content]]:
    """Volumes and mounts of secret files; `options` is the Secret of those that stand in clear in a Dataset."""
    volumes, mounts = [], []
    for number, file in enumerate(files):
        name = f"secrets-{number}"
        sources = [_source(option, place, number, options) for option, place in sorted(file.values.items())]
        volumes.append({"name": name, "projected": {"defaultMode": mode, "sources": sources}})
        mounts.append({"name": name, "mountPath": secret_folder(number), "readOnly": True})
    return volumes, mounts


def plain_options(role: Role, datasets: Mapping[str, Dataset]) -> dict[str, str]:
    """The values of the dataset's own Secret. They are secret: for the API server alone."""
    return plain_values(role.secrets, datasets)


def plain_values(files: Sequence[SecretFile], datasets: Mapping[str, Dataset]) -> dict[str, str]:
    """The values of the Secret of those that stand in clear in a Dataset."""
    return {
        _key(number, option): plain_value(datasets[place.dataset], place)
        for number, file in enumerate(files)
        for option, place in file.values.items()
        if isinstance(place, PlainOption)
    }


def secret_numbers(role: Role) -> dict[str, int]:
    """The number of the secret folder of each origin that has one, by the origin's path."""
    return {file.origin_path: number for number, file in enumerate(role.secrets)}


def _source(option: str, place: SecretKey | PlainOption, number: int, options: str) -> Content:
    if isinstance(place, SecretKey):
        return {"secret": {"name": place.secret, "items": [{"key": place.key, "path": option}]}}
    return {"secret": {"name": options, "items": [{"key": _key(number, option), "path": option}]}}


def _key(number: int, option: str) -> str:
    """A key of a Secret: letters, digits, `-`, `_` and `.`."""
    safe = "".join(
        each if (each.isascii() and each.isalnum()) or each in "-_." else f"_{ord(each):x}_"
        for each in option
    )
    return f"{number}.{safe}"
