"""The check of an origin as a whole: its credentials, the way to it, and its list."""

from __future__ import annotations

import time
from collections.abc import Iterator

from headrace.diagnosis import credential_checks, storage_checks, storage_facts
from headrace.diagnosis.credential_checks import CredentialFacts, kind_of
from headrace.diagnosis.findings import Finding, fault
from headrace.engine.key_sources import Sourced, sourced
from headrace.engine.secrets import Ask
from headrace.errors import HeadraceError
from headrace.settings.dataset import DatasetSettings
from headrace.settings.environment import Environment
from headrace.settings.origin_options import is_secret, secret_variables
from headrace.settings.origins import Origin


def check(
    word: str, settings: DatasetSettings, environment: Environment, ask: Ask | None = None
) -> Iterator[Finding]:
    """Everything about the origin of this address. Raises `ConfigError` for an address that cannot be read."""
    try:
        found = sourced([word], settings.options, settings.secret_file, environment, ask)
    except HeadraceError as error:
        if error.kind == "Config":
            raise
        yield fault(f"credentials of {word}", error.message, error.hint or "get others")
        return
    for warning in found.warnings:
        yield fault(f"credentials of {word}", warning, "let only their owner read them")
    for mount in found.origins.mounts:
        yield from _check(mount.origin, _credentials(mount.origin, found, settings, environment), environment)


def _check(origin: Origin, credentials: CredentialFacts, environment: Environment) -> Iterator[Finding]:
    now_s = time.time()
    yield credential_checks.check(credentials, now_s)
    way = storage_facts.network(origin, environment.proxies)
    if way is not None:
        yield from storage_checks.check_network(origin.label, way, now_s)
    yield storage_checks.check_list(origin.label, storage_facts.listing(origin))


def _credentials(
    origin: Origin, found: Sourced, settings: DatasetSettings, environment: Environment
) -> CredentialFacts:
    kind = kind_of(origin)
    expires = min((key.expires_at_s for key in found.keys if key.expires_at_s is not None), default=None)
    source = _source(origin, settings, environment) if kind not in ("none", "none asked for") else ""
    return CredentialFacts(origin.label, kind, source, expires, bool(getattr(origin, "renewal", None)))


def _source(origin: Origin, settings: DatasetSettings, environment: Environment) -> str:
    """The heaviest of the places that may hold them: as `headrace.engine.origin_parsing` weighs them."""
    if settings.secret_file is not None:
        return f"the secret file {settings.secret_file}"
    if any(is_secret(name.rpartition(":")[2]) for name in settings.options):
        return "options"
    variables = [name for name in sorted(secret_variables()) if environment.get(name)]
    if variables:
        return ", ".join(variables)
    return (
        f"the AWS profile {environment.get('AWS_PROFILE') or 'default'}"
        if origin.kind == "s3"
        else "its address"
    )
