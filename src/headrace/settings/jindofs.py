"""The properties file of JindoFS: namespaces in cache mode, each an origin of the cluster at the path of its name.

    jfs.namespaces: train
    jfs.namespaces.train.mode :  cache
    jfs.namespaces.train.oss.uri :  oss://bucket.endpoint/prefix
    jfs.namespaces.train.oss.access.key :  …
    jfs.namespaces.train.oss.access.secret :  …

Keys that only JindoFS has a use for are accepted and named in one warning; a slip of the hand is an error.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import ConfigError, UnsupportedError

MOUNTPOINT = Path("/mnt/jfs")
"""Where JindoFS shows its namespaces."""

_LARGEST_BYTES = 1 << 20
_LIST = "jfs.namespaces"
_SUFFIXES = (".properties", ".cfg", ".conf")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_OPTIONS: Mapping[str, str] = {
    "oss.access.key": "access_key_id",
    "oss.access.secret": "access_key_secret",
    "oss.access.securityToken": "security_token",
    "oss.access.endpoint": "endpoint",
    "oss.endpoint": "endpoint",
}
_OSS_SPELLING: Mapping[str, str] = {
    "access_key_id": "fs.oss.accessKeyId",
    "access_key_secret": "fs.oss.accessKeySecret",
    "security_token": "fs.oss.securityToken",
    "endpoint": "fs.oss.endpoint",
}
_OF_NAMESPACE = ("mode", "oss.uri", *_OPTIONS)
# Keys of JindoFS' own services and of its block mode that people copy along; they have no meaning here.
_MEANINGLESS = re.compile(
    r"jfs\.namespaces\.[^.]+\.(oss\.(upload|write|timeout|retry)\.\S+|cache\.\S+|archive\.\S+|attr\.\S+)"
    r"|jfs\.cache\.(data-cache\.\S+|\S+)|storage\.\S+|namespace\.\S+|client\.\S+|manager\.\S+|logger\.\S+"
    r"|jindo\.\S+|jfs\.(storage|client|manager|ranger|archive|transfer|fuse|data-cache)\.\S+"
)


@dataclass(frozen=True)
class Namespace:
    """One namespace: its name, the address of its data, and options with credentials in clear."""

    name: str
    uri: str
    options: Mapping[str, str] = field(repr=False)

    def as_origin(self) -> dict[str, object]:
        """The same as an entry of `origins`."""
        return {"path": self.name, "origin": self.uri, "options": dict(self.options)}


@dataclass(frozen=True)
class Namespaces:
    """The content of one properties file."""

    namespaces: tuple[Namespace, ...]
    warnings: list[str]
    mountpoint: Path = MOUNTPOINT


def is_properties(path: Path) -> bool:
    """True for a file that its name tells to be one of JindoFS."""
    return path.suffix in _SUFFIXES


def read_properties(path: Path) -> Namespaces:
    """The namespaces of a file. Raises `ConfigError` with the line of the fault, never with a value."""
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise ConfigError.of(f"cannot read {path}: {error.strerror}") from None
    if len(raw) > _LARGEST_BYTES:
        raise ConfigError.of(f"{path} is larger than {_LARGEST_BYTES} bytes: no configuration of a role")
    try:
        return parse_properties(raw.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError:
        raise ConfigError.of(f"{path} is not text") from None


def parse_properties(text: str, source: str) -> Namespaces:
    """The same for a text that was read already; `source` is what errors call it."""
    entries = _entries(text, source)
    names = _names(entries, source)
    _check_keys(entries, names, source)
    namespaces = tuple(_namespace(name, entries, source) for name in names)
    meaningless = [key for key in entries if not _is_known(key, names)]
    warnings = [f"{source}: without meaning here: {', '.join(meaningless)}"] if meaningless else []
    return Namespaces(namespaces, warnings)


@dataclass(frozen=True)
class _Entry:
    line: int
    value: str = field(repr=False)


def _entries(text: str, source: str) -> dict[str, _Entry]:
    entries: dict[str, _Entry] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line, source, number)
        if key in entries:
            raise _fault(source, number, f"'{key}' is set a second time")
        entries[key] = _Entry(number, value)
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = raw.strip()
        if line and not line.startswith(("#", "!", "[")):
            yield number, line


def _split(line: str, source: str, number: int) -> tuple[str, str]:
    match = re.fullmatch(r"(?P<key>[^\s:=]+)\s*[:=]\s*(?P<value>.*)", line)
    if match is None:
        raise _fault(source, number, "'KEY: VALUE' or 'KEY = VALUE' is expected here")
    return match["key"], match["value"].strip()


def _names(entries: Mapping[str, _Entry], source: str) -> tuple[str, ...]:
    entry = entries.get(_LIST)
    if entry is None:
        near = difflib.get_close_matches(_LIST, entries, n=1, cutoff=0.8)
        hint = f"did you mean '{_LIST}' by '{near[0]}'?" if near else f"add for example '{_LIST}: train'"
        raise ConfigError.of(f"{source} names no namespaces", hint=hint)
    names = tuple(name.strip() for name in entry.value.split(",") if name.strip())
    if not names:
        raise _fault(source, entry.line, f"'{_LIST}' is empty")
    for name in names:
        if not _NAME.fullmatch(name) or name in (".", ".."):
            raise _fault(source, entry.line, f"'{name}' cannot be the name of a folder")
    if len(set(names)) < len(names):
        raise _fault(source, entry.line, "a namespace is named twice")
    return names


def _namespace(name: str, entries: Mapping[str, _Entry], source: str) -> Namespace:
    own = {key: entries[spelled] for key in _OF_NAMESPACE if (spelled := f"{_LIST}.{name}.{key}") in entries}
    mode = own.get("mode")
    if mode is not None and mode.value.lower() != "cache":
        raise UnsupportedError.of(
            f"{source} line {mode.line}: namespace {name}: only mode 'cache' is supported",
            hint="block mode keeps data in a layout of JindoFS' own; copy it out with JindoFS, then use mode cache",
        )
    uri = own.get("oss.uri")
    if uri is None or not uri.value:
        raise ConfigError.of(
            f"{source}: namespace {name} has no address", hint=f"add {_LIST}.{name}.oss.uri: oss://…"
        )
    options: dict[str, str] = {}
    for key, option in _OPTIONS.items():
        if key in own and own[key].value:
            if _OSS_SPELLING[option] in options:
                raise _fault(source, own[key].line, f"the endpoint of namespace {name} is set a second time")
            # A value that begins with @ is that text here; as an option it would be the name of a file.
            value = own[key].value
            options[_OSS_SPELLING[option]] = f"@{value}" if value.startswith("@") else value
    return Namespace(name, uri.value, options)


def _check_keys(entries: Mapping[str, _Entry], names: tuple[str, ...], source: str) -> None:
    for key, entry in entries.items():
        if _is_known(key, names):
            continue
        namespace = next((name for name in names if key.startswith(f"{_LIST}.{name}.")), None)
        known = [f"{_LIST}.{namespace}.{word}" for word in _OF_NAMESPACE] if namespace else [_LIST]
        if namespace is None and key.startswith(f"{_LIST}."):
            raise ConfigError.of(
                f"{source} line {entry.line}: '{key}' is for a namespace that '{_LIST}' does not name",
                hint=f"named are {', '.join(names)}",
            )
        if _MEANINGLESS.fullmatch(key):
            continue
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
        raise ConfigError.of(
            f"{source} line {entry.line}: unknown key '{key}'",
            hint=f"did you mean '{near[0]}'?" if near else f"known are {', '.join(known)}",
        )


def _is_known(key: str, names: tuple[str, ...]) -> bool:
    return key == _LIST or any(key == f"{_LIST}.{name}.{word}" for name in names for word in _OF_NAMESPACE)


def _fault(source: str, line: int, problem: str) -> ConfigError:
    return ConfigError.of(f"{source} line {line}: {problem}")
