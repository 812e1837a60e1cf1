"""Origins with the places that their keys come from, and the same keys read again.

Keys from a file, or from an AWS profile, may be others when they are read again; everything else stays what it was.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from headrace.engine import secrets
from headrace.engine.origin_parsing import Origins, parse_origins
from headrace.engine.profiles import Profiles, files_of
from headrace.settings.environment import Environment
from headrace.settings.key_sources import KeySource
from headrace.settings.origin_options import OPTIONS, is_secret, secret_variables
from headrace.settings.origins import Origin, OriginMount
from headrace.settings.paths import absolute

_numbers = itertools.count(1)

Stamp = tuple[object, ...]
"""What a file looked like when it was read: equal for files that need not be read again."""


@dataclass(frozen=True)
class Sourced:
    """Origins, where their keys come anew, and what the person should be warned of."""

    origins: Origins
    keys: tuple[KeySource, ...]
    warnings: list[str]


def sourced(
    words: Sequence[str],
    given: Mapping[str, str],
    secret_file: Path | None,
    environment: Environment,
    ask: secrets.Ask | None = None,
    *,
    exclude: Sequence[str] = (),
    machine_credentials: bool = True,
) -> Sourced:
    """The origins that words, options and files describe. Raises `ConfigError`.

    Without `machine_credentials` nothing of this machine is used for them: no variable, no profile and no role of it.
    """
    environment = environment if machine_credentials else Environment({})
    resolved = secrets.resolve(given, secret_file, environment, ask)
    profiles = Profiles()
    parsed = parse_origins(
        words,
        resolved.options,
        environment,
        exclude=exclude,
        profiles=profiles,
        machine_credentials=machine_credentials,
    )
    source = _source(words, given, secret_file, resolved.options, environment).model_copy(
        update={"machine_credentials": machine_credentials}
    )
    names = tuple(_name(mount, source) for mount in parsed.mounts)
    mounts = tuple(
        mount.model_copy(update={"origin": mount.origin.model_copy(update={"renewal": name})})
        if name
        else mount
        for mount, name in zip(parsed.mounts, names, strict=True)
    )
    keys: tuple[KeySource, ...] = ()
    if any(names):
        keys = (source.model_copy(update={"names": names, "expires_at_s": profiles.expires_at_s}),)
    return Sourced(Origins(parsed.name, mounts), keys, resolved.warnings)


def read_again(
    source: KeySource, environment: Environment, profiles: Profiles
) -> dict[str, dict[str, SecretStr | None]]:
    """The credentials as they are now, by the names of their origins. Raises `HeadraceError`."""
    options = secrets.read_secret_file(source.secret_file, []) if source.secret_file else {}
    options |= source.options
    options |= {name: value.get_secret_value() for name, value in source.secrets.items()}
    options |= {name: secrets.read_secret(path, []) for name, path in source.option_files.items()}
    mounts = parse_origins(
        source.words,
        options,
        environment_of(source, environment),
        profiles=profiles,
        machine_credentials=source.machine_credentials,
    ).mounts
    return {
        name: credentials(mount.origin)
        for name, mount in zip(source.names, mounts, strict=True)
        if name is not None
    }


def credentials(origin: Origin) -> dict[str, SecretStr | None]:
    """The credentials among the fields of an origin."""
    fields = {option.field for option in OPTIONS.get(origin.kind, ()) if option.secret}
    return {name: getattr(origin, name) for name in fields}


def environment_of(source: KeySource, environment: Environment) -> Environment:
    """This environment, with the credentials that were in that of the start."""
    if not source.machine_credentials:
        return Environment({})
    kept = {name: value.get_secret_value() for name, value in source.variables.items()}
    return Environment({**environment.variables, **kept})


def stamp(source: KeySource, environment: Environment) -> Stamp:
    """The look of the files now, without reading them."""
    return tuple(_stamp(path) for path in _files(source, environment))


def _source(
    words: Sequence[str],
    given: Mapping[str, str],
    secret_file: Path | None,
    resolved: Mapping[str, str],
    environment: Environment,
) -> KeySource:
    files = {name: absolute(value[1:]) for name, value in given.items() if secrets.is_file(value)}
    rest = {name: resolved[name] for name in given if name not in files}
    hidden = {name for name in rest if is_secret(name.rpartition(":")[2])}
    return KeySource(
        words=tuple(words),
        options={name: value for name, value in rest.items() if name not in hidden},
        secrets={name: SecretStr(rest[name]) for name in hidden},
        option_files=files,
        secret_file=absolute(secret_file) if secret_file else None,
        variables={name: SecretStr(value) for name in secret_variables() if (value := environment.get(name))},
    )


def _name(mount: OriginMount, source: KeySource) -> str | None:
    """A name for keys that may come anew."""
    origin = mount.origin
    if "renewal" not in type(origin).model_fields or getattr(origin, "anonymous", False):
        return None
    has_keys = source.secrets or "AWS_ACCESS_KEY_ID" in source.variables
    by_profile = origin.kind == "s3" and source.machine_credentials and not has_keys
    return f"keys {next(_numbers)}" if source.secret_file or source.option_files or by_profile else None


def _files(source: KeySource, environment: Environment) -> Iterator[Path]:
    if source.secret_file:
        yield source.secret_file
        # A folder holds a file for each key; a Secret of Kubernetes is changed by what a link there leads to.
        if source.secret_file.is_dir():
            yield from sorted(source.secret_file.iterdir())
    yield from source.option_files.values()
    if source.machine_credentials:
        yield from files_of(environment_of(source, environment))


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError as error:
        return (str(path), error.errno)
    return (str(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
