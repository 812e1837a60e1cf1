"""`headrace refresh`."""

from __future__ import annotations

from headrace.cli import printer, words
from headrace.cli.targets import reach
from headrace.settings.environment import Environment
from headrace.settings.sizes import format_size


def run(
    target: words.Target,
    cache: words.Cache = None,
    option: words.Option = None,
    secret_file: words.SecretFile = None,
    json: words.Json = False,
) -> None:
    """Take a new snapshot of the origin's names; readers move on between opens."""
    environment = Environment.current()
    settings = words.settings_of(environment, option=option, cache=cache, secret_file=secret_file)
    reached = reach(target, settings, environment)
    with reached.engine as engine:
        report = engine.refresh()
    if json:
        printer.as_json(report.model_dump(mode="json"))
    printer.say(
        f"refreshed {reached.name}: {report.added:,} added, {report.changed:,} changed, {report.removed:,} removed; "
        f"{report.files:,} files, {format_size(report.bytes)}"
    )
