"""`headrace evict`."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import options, printer
from headrace.cli.dataset_words import settings_of
from headrace.cli.targets import reach
from headrace.errors import ConfigError
from headrace.settings.environment import Environment
from headrace.settings.sizes import format_size


def run(
    target: options.Target,
    path: options.Paths = None,
    everything: Annotated[bool, typer.Option("--all", help="Drop the whole dataset from the cache.")] = False,
    cache: options.Cache = None,
    option: options.Option = None,
    exclude: options.Exclude = None,
    secret_file: options.SecretFile = None,
    block_size: options.BlockSize = None,
    json: options.Json = False,
) -> None:
    """Drop files or folders from the cache; the data stays where it lives."""
    environment = Environment.current()
    settings = settings_of(
        environment,
        option=option,
        exclude=exclude,
        cache=cache,
        secret_file=secret_file,
        block_size=block_size,
    )
    reached = reach(target, settings, environment)
    with reached.engine as engine:
        paths = reached.paths(path)
        if (paths != [b""]) == everything:
            raise ConfigError.of(
                "name what to drop, or --all", hint=f"headrace evict {target} PATH, or --all"
            )
        freed = engine.evict(paths)
    if json:
        printer.as_json({"freed_bytes": freed})
    printer.say(f"evicted {format_size(freed)}")
