"""`headrace verify`."""

from __future__ import annotations

from headrace.cli import words
from headrace.cli.jobs import finish
from headrace.cli.targets import reach
from headrace.settings.environment import Environment


def run(
    target: words.Target,
    path: words.Paths = None,
    cache: words.Cache = None,
    option: words.Option = None,
    secret_file: words.SecretFile = None,
    block_size: words.BlockSize = None,
    json: words.Json = False,
) -> None:
    """Compare what the cache holds with its checksums; what does not match is dropped."""
    environment = Environment.current()
    settings = words.settings_of(
        environment, option=option, cache=cache, secret_file=secret_file, block_size=block_size
    )
    reached = reach(target, settings, environment)
    with reached.engine as engine:
        finish(engine.verify(reached.paths(path)), "verify", json=json)
