"""From the words of the command line or the SDK to typed origins.

An option weighs more than the address, the address more than the environment.

Pure but for the AWS profile files: the variables come in as an `Environment`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headrace.engine.profiles import Profiles
from headrace.engine.uris import Address, is_numeric_or_local, normal_endpoint, parse_address
from headrace.errors import ConfigError
from headrace.settings import origin_options as options
from headrace.settings.environment import Environment
from headrace.settings.exclusions import pattern_fault, patterns_of
from headrace.settings.faults import fault_text, first_fault
from headrace.settings.origins import Exclude, OriginMount

_NAMED = re.compile(r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)=(?P<address>.+)", re.DOTALL)
_SCOPED = re.compile(r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*):(?P<option>[A-Za-z].*)", re.DOTALL)
_SAFE_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_KEYS = {
    "s3": frozenset({"access_key_id", "secret_access_key"}),
    "oss": frozenset({"access_key_id", "access_key_secret"}),
}
# Clouds that want the bucket in the host name; other S3-compatible servers seldom have the DNS entries for it.
_VIRTUAL_HOSTED = ("amazonaws.com", "amazonaws.com.cn", "aliyuncs.com", "myqcloud.com", "volces.com")


@dataclass(frozen=True)
class Origins:
    """The origins of one dataset, and a name for it."""

    name: str
    mounts: tuple[OriginMount, ...]


def parse_origins(
    words: Sequence[str],
    given: Mapping[str, str],
    environment: Environment,
    *,
    exclude: Sequence[str] = (),
    working_directory: Path | None = None,
    profiles: Profiles | None = None,
    machine_credentials: bool = True,
) -> Origins:
    """The origins that `words` (`URI` or `NAME=URI`) and the options `given` describe. Raises `ConfigError`.

    An option goes to every origin whose kind knows it; `NAME:option` goes to that origin alone. `exclude` are patterns
    of names to leave out of each origin, beside those of its options. `profiles` keeps what programs and roles gave
    until it is old. Without `machine_credentials` a bucket that is given no keys is asked anonymously, whatever keys
    the machine has.
    """
    if not words:
        raise ConfigError.of("no origin given", hint="name one, such as s3://bucket/prefix or /path")
    directory = working_directory or Path.cwd()
    named = [_split_name(word) for word in words]
    addresses = [(name, parse_address(text, working_directory=directory)) for name, text in named]
    _check_names([name for name, _ in addresses])
    shared, scoped = _split_scopes(given, {name for name, _ in addresses})
    for spelling in shared:
        kinds = {address.kind for _, address in addresses}
        if not any(options.find(kind, spelling) for kind in kinds):
            raise options.unknown(spelling, kinds)
    profiles = profiles or Profiles()
    mounts = tuple(
        _mount(
            address,
            shared,
            scoped.get(name, {}),
            environment,
            profiles if machine_credentials else None,
            exclude=exclude,
        ).model_copy(update={"path": name})
        for name, address in addresses
    )
    return Origins(name=_dataset_name(addresses), mounts=mounts)


def _split_name(word: str) -> tuple[str, str]:
    match = _NAMED.fullmatch(word)
    return (match["name"], match["address"]) if match else ("", word)


def _check_names(names: Sequence[str]) -> None:
    if len(names) > 1 and "" in names:
        raise ConfigError.of(
            "several origins need names", hint="write NAME=URI for each, such as train=s3://bucket/a"
        )
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ConfigError.of(f"two origins are named '{doubled[0]}'", hint="give each its own name")


def _split_scopes(
    given: Mapping[str, str], names: set[str]
) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    shared: dict[str, str] = {}
    scoped: dict[str, dict[str, str]] = {}
    for spelling, value in given.items():
        match = _SCOPED.fullmatch(spelling)
        if match is None:
            shared[spelling] = value
        elif match["name"] in names:
            scoped.setdefault(match["name"], {})[match["option"]] = value
        else:
            raise ConfigError.of(
                f"option '{spelling}' is for an origin '{match['name']}' that is not there",
                hint=f"the origins are named {', '.join(sorted(names - {''})) or 'nothing: leave the name out'}",
            )
    return shared, scoped


def _mount(
    address: Address,
    shared: Mapping[str, str],
    own: Mapping[str, str],
    environment: Environment,
    profiles: Profiles | None,
    *,
    exclude: Sequence[str],
) -> OriginMount:
    """The origin of an address. Without `profiles` nothing that the machine has is used."""
    for spelling in own:
        if options.find(address.kind, spelling) is None:
            raise options.unknown(spelling, [address.kind])
    fields: dict[str, Any] = dict(_from_environment(address.kind, environment)) if profiles else {}
    fields |= address.fields
    of_all, of_this = _from_options(address.kind, shared), _from_options(address.kind, own)
    # The last pattern that matches decides: those that are of this origin alone.
    patterns = (*_patterns(of_all), *exclude, *_patterns(of_this))
    fields |= of_all
    fields |= of_this
    if profiles is None:
        fields = _by_given_keys_alone(address.kind, fields)
    elif address.kind == "s3":
        fields = _with_profile(fields, environment, profiles)
    strict = fields.pop("strict", False)
    mount = _checked(address.kind, _with_defaults(address.kind, fields))
    return mount.model_copy(update={"strict": strict, "exclude": Exclude(patterns=patterns)})


def _patterns(fields: dict[str, Any]) -> tuple[str, ...]:
    """Takes the patterns out of the options."""
    found = patterns_of(fields.pop("exclude", ""))
    for pattern in found:
        if fault := pattern_fault(pattern):
            raise ConfigError.of(f"option 'exclude': the pattern '{pattern}' {fault}")
    return found


def _from_options(kind: str, given: Mapping[str, str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for spelling, value in given.items():
        option = options.find(kind, spelling)
        if option is None:
            continue
        if option.field in fields:
            raise ConfigError.of(f"option '{spelling}' says again what another spelling of it has said")
        fields[option.field] = options.parse_flag(spelling, value) if option.flag else value
    return fields


def _from_environment(kind: str, environment: Environment) -> dict[str, str]:
    fields: dict[str, str] = {}
    for option in options.OPTIONS[kind]:
        if value := environment.first(option.variables):
            fields[option.field] = value
    return fields


def _by_given_keys_alone(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    """What is given no keys is asked without any: a signer would look for those of the machine."""
    keys = _KEYS.get(kind, frozenset())
    return fields | {"anonymous": True} if keys and not keys & fields.keys() else fields


def _with_profile(fields: dict[str, Any], environment: Environment, profiles: Profiles) -> dict[str, Any]:
    """Region and endpoint of the AWS profile where nothing else says them; its keys only where none are given: a key
    never goes with the secret or the token of another place.
    """
    fields = profiles.place(environment) | fields
    if fields.get("anonymous") or "access_key_id" in fields or "secret_access_key" in fields:
        return fields
    return fields | profiles.keys(environment)


def _with_defaults(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    if kind == "oss" and "endpoint" not in fields:
        raise ConfigError.of(
            "an oss:// origin needs the endpoint of its region",
            hint="add --option fs.oss.endpoint=oss-cn-shanghai.aliyuncs.com, or write oss://bucket.ENDPOINT/prefix",
        )
    if "endpoint" in fields:
        fields["endpoint"] = normal_endpoint(fields["endpoint"], kind=kind)
    if kind in ("s3", "oss") and "endpoint" in fields:
        fields.setdefault("path_style", _wants_path_style(kind, fields["endpoint"]))
    if fields.get("anonymous") and fields.get("requester_pays"):
        raise ConfigError.of(
            "requester-pays needs keys, by which who pays is known, and anonymous sends none",
            hint="leave one of the two options out",
        )
    if fields.get("anonymous"):
        for secret in (
            "access_key_id",
            "secret_access_key",
            "access_key_secret",
            "session_token",
            "security_token",
        ):
            fields.pop(secret, None)
    return fields


def _wants_path_style(kind: str, endpoint: str) -> bool:
    if is_numeric_or_local(endpoint):
        return True
    host = endpoint.rpartition("://")[2].partition(":")[0].lower()
    return kind == "s3" and not host.endswith(_VIRTUAL_HOSTED)


def _checked(kind: str, fields: Mapping[str, Any]) -> OriginMount:
    _check_pair(kind, fields)
    try:
        return OriginMount.model_validate({"origin": {"kind": kind, **fields}})
    except ValidationError as error:
        first = first_fault(error)
        raise ConfigError.of(
            f"option '{_spelling(kind, str(first['loc'][-1]))}': {fault_text(first)}"
        ) from None


def _spelling(kind: str, field: str) -> str:
    return next((option.spellings[0] for option in options.OPTIONS[kind] if option.field == field), field)


def _check_pair(kind: str, fields: Mapping[str, Any]) -> None:
    secret = {"s3": "secret_access_key", "oss": "access_key_secret"}.get(kind)
    if secret and ("access_key_id" in fields) != (secret in fields):
        lacking = secret if "access_key_id" in fields else "access_key_id"
        known = next(option for option in options.OPTIONS[kind] if option.field == lacking)
        raise ConfigError.of(
            f"the {kind}:// origin has half of its credentials: {known.meaning.lower()} is missing",
            hint=f"give {known.spellings[1]} by --secret-file, or set {known.variables[0]}",
        )


def _dataset_name(addresses: Sequence[tuple[str, Address]]) -> str:
    names = [name for name, _ in addresses]
    name = "-".join(names) or addresses[0][1].name
    return _SAFE_NAME.sub("-", name).strip("-.") or "dataset"
