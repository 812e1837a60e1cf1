"""The credentials and the region that AWS's own files hold for a profile. Reads files, and nothing else."""

from __future__ import annotations

import configparser
from pathlib import Path

from headrace.errors import ConfigError
from headrace.settings.environment import Environment

_KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint",
}


def read_aws_profile(environment: Environment) -> dict[str, str]:
    """Fields of an S3 origin that `~/.aws/credentials` and `~/.aws/config` hold for `AWS_PROFILE` (or `default`).

    An unnamed default profile may be missing; a named one may not.
    """
    named = environment.get("AWS_PROFILE")
    profile = named or "default"
    folder = environment.home / ".aws"
    config = Path(environment.get("AWS_CONFIG_FILE") or folder / "config")
    credentials = Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or folder / "credentials")
    config_section = profile if profile == "default" else f"profile {profile}"
    found = _read(config, config_section)
    kept = _read(credentials, profile)
    if named and found is None and kept is None:
        raise ConfigError.of(
            f"AWS profile '{profile}' is in neither {credentials} nor {config}",
            hint="check AWS_PROFILE, or unset it",
        )
    return {**(found or {}), **(kept or {})}


def _read(path: Path, section: str) -> dict[str, str] | None:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    except configparser.Error:
        # The parser's own message repeats the line, which may hold a key.
        raise ConfigError.of(f"{path} is not a valid AWS profile file") from None
    if not parser.has_section(section):
        return None
    return {_KEYS[key]: value for key, value in parser.items(section) if key in _KEYS and value}
