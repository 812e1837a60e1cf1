"""The region, the endpoint and the keys that AWS's own files hold for a profile, or that they say how to get.

Keys of a role or of a program are kept until they are old, so that whoever reads a profile again and again does not
ask for them each time.
"""

from __future__ import annotations

import configparser
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.engine import assumed_roles, credential_process
from headrace.engine.temporary_keys import TemporaryKeys
from headrace.errors import ConfigError, UnsupportedError
from headrace.settings.environment import Environment

_KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}
_PLACE = {"region": "region", "endpoint_url": "endpoint"}
# A refusal can mean that the keys in use have ended early; who refuses all does not make a program run all the time.
_YOUNG_S = 10.0


@dataclass(frozen=True)
class _Files:
    """Both files of AWS: sections by the name of their profile, those of `credentials` over those of `config`."""

    config: Path
    credentials: Path
    profiles: Mapping[str, Mapping[str, str]]

    @property
    def both(self) -> tuple[Path, Path]:
        return self.config, self.credentials

    @classmethod
    def read(cls, environment: Environment) -> _Files:
        config, credentials = files_of(environment)
        profiles: dict[str, dict[str, str]] = {}
        for section, values in _read(config).items():
            profiles[section.removeprefix("profile ").strip() if section != "default" else section] = values
        for section, values in _read(credentials).items():
            profiles[section] = {**profiles.get(section, {}), **values}
        return cls(config, credentials, profiles)

    def get(self, name: str, named_by: str) -> Mapping[str, str]:
        if name not in self.profiles:
            raise ConfigError.of(
                f"AWS profile '{name}' is in neither {self.credentials} nor {self.config}",
                hint=f"check {named_by}",
            )
        return self.profiles[name]


def files_of(environment: Environment) -> tuple[Path, Path]:
    """The files `config` and `credentials`, whether they are there or not."""
    folder = environment.home / ".aws"
    return (
        Path(environment.get("AWS_CONFIG_FILE") or folder / "config"),
        Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or folder / "credentials"),
    )


class Profiles:
    """The profile of an environment (`AWS_PROFILE`, or `default`), with what programs and roles gave for it."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[TemporaryKeys, float]] = {}

    @property
    def expires_at_s(self) -> float | None:
        """The time at which the first of the keys that a program or a role gave ends; `None` when none of them does."""
        return min((keys.expires_at_s for keys, _ in self._kept.values() if keys.expires_at_s), default=None)

    def forget(self) -> None:
        """Asks programs and roles for keys again, unless they have just done so."""
        self._kept = {name: kept for name, kept in self._kept.items() if _is_young(kept[1])}

    def place(self, environment: Environment) -> dict[str, str]:
        """Region and endpoint, as fields of an S3 origin. An unnamed default profile may be missing; a named one may
        not.
        """
        values = _chosen(_Files.read(environment), environment)[1]
        return {_PLACE[key]: value for key, value in values.items() if key in _PLACE and value}

    def keys(self, environment: Environment) -> dict[str, str]:
        """Keys as fields of an S3 origin; none where the profile holds none and names no way to them."""
        files = _Files.read(environment)
        name, _ = _chosen(files, environment)
        return self._keys(files, name, environment, ())

    def _keys(
        self, files: _Files, name: str, environment: Environment, seen: tuple[str, ...]
    ) -> dict[str, str]:
        values = files.profiles.get(name, {})
        # A role that is assumed by the keys of its own profile names itself.
        if "role_arn" in values and seen[-1:] != (name,):
            return self._kept_or(name, lambda: self._of_role(files, name, environment, seen))
        if values.get("aws_access_key_id"):
            return {_KEYS[key]: value for key, value in values.items() if key in _KEYS and value}
        if command := values.get("credential_process"):
            return self._kept_or(name, lambda: credential_process.run(command, name, files.both))
        if "sso_session" in values and "sso_start_url" not in values:
            raise UnsupportedError.of(
                f"AWS profile '{name}' gets its keys by sso_session, which is not supported",
                hint="let the AWS CLI get them: in another profile, "
                f"credential_process = aws configure export-credentials --format process --profile {name}",
            )
        return {}

    def _kept_or(self, name: str, get: Callable[[], TemporaryKeys]) -> dict[str, str]:
        kept = self._kept.get(name)
        if kept is None or (kept[0].is_old() and not _is_young(kept[1])):
            kept = self._kept[name] = (get(), time.monotonic())
        return kept[0].fields

    def _of_role(
        self, files: _Files, name: str, environment: Environment, seen: tuple[str, ...]
    ) -> TemporaryKeys:
        values = files.profiles[name]
        role = assumed_roles.Role.of(name, values, environment)
        if token_file := values.get("web_identity_token_file"):
            return role.by_web_identity(Path(token_file).expanduser())
        if values.get("mfa_serial"):
            raise UnsupportedError.of(
                f"AWS profile '{name}' asks for a code at each use (mfa_serial), which is not supported",
                hint="get temporary keys with the AWS CLI, and put them into a profile or a --secret-file",
            )
        if source := values.get("source_profile"):
            if source in seen:
                raise ConfigError.of(
                    f"the AWS profiles {', '.join((*seen, name))} name each other as source_profile",
                    hint="one of them must hold keys",
                )
            files.get(source, f"source_profile of '{name}'")
            keys = self._keys(files, source, environment, (*seen, name))
            return role.by_keys(_found(keys, f"its source_profile '{source}' has no keys", name))
        return role.by_keys(_keys_of_environment(values, environment, name))


def _is_young(given_s: float) -> bool:
    return time.monotonic() - given_s < _YOUNG_S


def _keys_of_environment(values: Mapping[str, str], environment: Environment, name: str) -> dict[str, str]:
    kind = values.get("credential_source")
    if kind == "Environment":
        found = {field: environment.get(key.upper()) for key, field in _KEYS.items()}
        keys = {field: value for field, value in found.items() if value}
        return _found(keys, "credential_source is Environment, where AWS_ACCESS_KEY_ID is not set", name)
    if kind:
        raise UnsupportedError.of(
            f"AWS profile '{name}' takes its keys from '{kind}' (credential_source), which a role cannot do here",
            hint="credential_source = Environment, source_profile and credential_process are",
        )
    raise ConfigError.of(
        f"AWS profile '{name}' has a role_arn, and names nobody who may assume it",
        hint="add source_profile, credential_source or web_identity_token_file",
    )


def _found(keys: dict[str, str], lack: str, name: str) -> dict[str, str]:
    if "access_key_id" not in keys or "secret_access_key" not in keys:
        raise ConfigError.of(f"the role of AWS profile '{name}' cannot be assumed: {lack}")
    return keys


def _chosen(files: _Files, environment: Environment) -> tuple[str, Mapping[str, str]]:
    named = environment.get("AWS_PROFILE")
    if named:
        return named, files.get(named, "AWS_PROFILE, or unset it")
    return "default", files.profiles.get("default", {})


def _read(path: Path) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser(strict=False, default_section="\0")
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return {}
    except configparser.Error:
        # The parser's own message repeats the line, which may hold a key.
        raise ConfigError.of(f"{path} is not a valid AWS profile file") from None
    return {section: dict(parser.items(section)) for section in parser.sections()}
