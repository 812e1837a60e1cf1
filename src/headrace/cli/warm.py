"""`headrace warm`."""

from __future__ import annotations

from headrace.cli import options
from headrace.cli.jobs import finish
from headrace.cli.targets import reach
from headrace.settings.environment import Environment


def run(
    target: options.Target,
    path: options.Paths = None,
    cache: options.Cache = None,
    option: options.Option = None,
    secret_file: options.SecretFile = None,
    block_size: options.BlockSize = None,
    json: options.Json = False,
) -> None:
    """Bring data into the cache before it is asked for; complete means that every byte is in."""
    environment = Environment.current()
    settings = options.settings_of(
        environment, option=option, cache=cache, secret_file=secret_file, block_size=block_size
    )
    reached = reach(target, settings, environment)
    with reached.engine as engine:
        finish(engine.warm(reached.paths(path)), "warm", json=json)
