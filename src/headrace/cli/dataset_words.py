"""The settings of a dataset that follow from the words of a command line and the configuration file."""

from __future__ import annotations

from typing import Any

from headrace.cli import printer
from headrace.engine.secrets import parse_options, plain_secrets
from headrace.errors import ConfigError
from headrace.settings.dataset import DatasetSettings
from headrace.settings.environment import Environment
from headrace.settings.exclusions import pattern_fault
from headrace.settings.toml_files import dataset_settings, read_file


def settings_of(
    environment: Environment,
    *,
    option: list[str] | None,
    exclude: list[str] | None = None,
    strict: bool | None = None,
    **given: Any,
) -> DatasetSettings:
    """The dataset's settings: the command line over the configuration file. Warns of credentials in clear."""
    options = parse_options(option or [])
    for spelling in plain_secrets(options):
        printer.warn(
            f"the credential {spelling} stands on the command line, where other users may see it and your shell "
            "keeps it; use --secret-file, env:NAME or prompt"
        )
    if strict:
        options["strict"] = "true"
    if exclude is not None:
        given["exclude"] = patterns(exclude)
    if given.get("cache") is not None:
        given["cache"] = tuple(given["cache"])
    return dataset_settings(read_file(environment)["dataset"], options=options, **given)


def patterns(exclude: list[str]) -> tuple[str, ...]:
    """The patterns of `--exclude`. Raises `ConfigError` for one that has no meaning."""
    for pattern in exclude:
        if fault := pattern_fault(pattern):
            raise ConfigError.of(
                f"--exclude '{pattern}': the pattern {fault}",
                hint="patterns are those of .gitignore files, such as '*.tmp', '_temporary/' or '/a/**/b'",
            )
    return tuple(exclude)
