"""Sources of the keys of origins, as far as they can come anew: what a process that uses them reads again.

Knows no file format and reads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, SecretStr

from headrace.settings.model import Model


class KeySource(Model):
    """The words by which origins were described: what stood in files by its file, all else by its value."""

    words: tuple[str, ...]
    options: Mapping[str, str] = Field(default_factory=dict)
    secrets: Mapping[str, SecretStr] = Field(default_factory=dict)
    option_files: Mapping[str, Path] = Field(default_factory=dict)
    secret_file: Path | None = None
    variables: Mapping[str, SecretStr] = Field(default_factory=dict)
    """Credentials of the environment, which the processes that use them do not have there."""
    names: tuple[str | None, ...] = ()
    """By what names the engine knows the keys, one for each origin; none for keys that cannot change."""
    machine_credentials: bool = True
    """Keys that the machine has are used where the words name none."""
    expires_at_s: float | None = None
    """When the keys that a program or a role gave end, in seconds since 1970."""
