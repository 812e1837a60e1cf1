"""Objects from words of a command alone: `create secret generic NAME --from-file id=FILE`, `create configmap NAME`."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.api.manifests import object_of
from headrace.errors import ConfigError, MissingFileError

if TYPE_CHECKING:
    from headrace.api.kinds import Object

Literals = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="A value of a new Secret or ConfigMap. Others on this machine can see it: give secrets by --from-file.",
    ),
]
Contents = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[KEY=]FILE", help="A file whose content is a value; its name is the key without one."
    ),
]
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KIND NAME]", help="`secret generic NAME` or `configmap NAME`, instead of files."
    ),
]
_SECRET, _CONFIG_MAP = ("secret", "secrets"), ("configmap", "configmaps", "cm")


def object_of_words(words: Sequence[str], literals: Iterable[str], files: Iterable[str]) -> Object:
    """The object that a command describes. Raises `ConfigError`, `MissingFileError`."""
    kind, *names = [word for number, word in enumerate(words) if (number, word) != (1, "generic")]
    if kind not in (*_SECRET, *_CONFIG_MAP) or len(names) != 1:
        raise ConfigError.of(
            f"create {' '.join(words)[:128]}: this cannot be made from words",
            hint="headrace create -f FILE, create secret generic NAME, or create configmap NAME",
        )
    values = dict([*map(_literal, literals), *_contents(files)])
    metadata = {"name": names[0]}
    if kind in _SECRET:
        data = {key: base64.b64encode(value).decode() for key, value in values.items()}
        return object_of({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    texts = {key: _text(key, value) for key, value in values.items()}
    return object_of({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": texts})


def _literal(word: str) -> tuple[str, bytes]:
    key, sign, value = word.partition("=")
    if not sign or not key:
        # Not the word itself: it may be a secret.
        raise ConfigError.of("a value of --from-literal is not KEY=VALUE")
    return key, value.encode()


def _contents(words: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for word in words:
        key, sign, name = word.partition("=")
        path = Path(name if sign else word)
        try:
            yield key if sign else path.name, path.read_bytes()
        except FileNotFoundError:
            raise MissingFileError.of(f"{path} is not there") from None
        except OSError as error:
            raise ConfigError.of(f"{path} cannot be read: {error.strerror}") from None


def _text(key: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ConfigError.of(f"the value of {key} is not text in UTF-8, as ConfigMaps have it") from None
