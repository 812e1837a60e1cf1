"""`headrace verify`."""

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
    """Compare what the cache holds with its checksums; what does not match is dropped."""
    environment = Environment.current()
    settings = options.settings_of(
        environment, option=option, cache=cache, secret_file=secret_file, block_size=block_size
    )
    reached = reach(target, settings, environment)
    with reached.engine as engine:
        finish(engine.verify(reached.paths(path)), "verify", json=json)
