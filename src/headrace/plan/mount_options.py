"""The options of one origin, of all places where people write them, and which of them must be kept secret.

Options of more weight come later: keys of the runtime's Secret, `sharedOptions`, `sharedEncryptOptions`, the mount's
`options`, its `encryptOptions`. Two spellings of one option are one option. Values are passed on and never looked at,
but for whether they would mean something else to the engine (`@FILE`, `env:NAME`, `prompt`): those go by secret file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.api.dataset import Dataset
from headrace.api.ignored import IgnoredField
from headrace.api.mounts import EncryptOption, Mount, scheme_of
from headrace.plan.mount_addresses import DATASET
from headrace.plan.roles import PlainOption, SecretKey
from headrace.settings.origin_options import OPTIONS, Option, find, is_secret

_UNKNOWN = "no origin of this kind knows the option"
_NOT_OF_REFERENCE = "what is left out of another dataset, that dataset's own mounts say"
_PAIRS = {"s3": "secret_access_key", "oss": "access_key_secret"}


@dataclass(frozen=True, slots=True)
class OriginOptions:
    """Plain options, and where the secret ones are; both by a spelling that the engine knows."""

    plain: Mapping[str, str]
    secret: Mapping[str, SecretKey | PlainOption]
    kind: str

    def has(self, field: str) -> bool:
        """True when some spelling of the option is there."""
        return any(_field_of(self.kind, spelling) == field for spelling in (*self.plain, *self.secret))

    def lacking(self, *, endpoint_given: bool) -> str | None:
        """The spelling of an option that the origin cannot do without, and that is not there."""
        if self.kind == "oss" and not endpoint_given and not self.has("endpoint"):
            return "fs.oss.endpoint"
        secret = _PAIRS.get(self.kind)
        if secret and self.has("access_key_id") != self.has(secret):
            field = secret if self.has("access_key_id") else "access_key_id"
            return next(_yaml_spelling(option) for option in OPTIONS[self.kind] if option.field == field)
        return None


def options_of(
    kind: str, dataset: Dataset, key: str, number: int, runtime_secret: tuple[str, Iterable[str]] | None
) -> OriginOptions:
    """The options of mount `number` of a dataset (`key` is its "namespace/name"), read by an origin of `kind`."""
    mount = (dataset.spec.mounts or ())[number]
    chosen: dict[str, tuple[str, str | SecretKey | PlainOption]] = {}
    layers = (
        _of_runtime(runtime_secret),
        _of_words(dataset.spec.shared_options, key, None),
        _of_secrets(dataset.spec.shared_encrypt_options),
        _of_words(mount.options, key, number),
        _of_secrets(mount.encrypt_options),
    )
    for layer in layers:
        for spelling, value in layer.items():
            if field := _field_of(kind, spelling):
                chosen[field] = (spelling, value)
    plain = {spelling: value for spelling, value in chosen.values() if isinstance(value, str)}
    secret = {spelling: value for spelling, value in chosen.values() if not isinstance(value, str)}
    return OriginOptions(plain, secret, kind)


def unknown_options(dataset: Dataset, kinds: Mapping[int, str]) -> Iterable[IgnoredField]:
    """Options that nobody knows: of a mount, for its kind of origin; of all mounts, for any of their kinds."""
    for number, mount in enumerate(dataset.spec.mounts or ()):
        kind = kinds.get(number)
        if kind is not None:
            yield from _unknown_of_mount(mount, number, kind)
    every = set(kinds.values())
    for spelling in dataset.spec.shared_options:
        if every and not any(_field_of(kind, spelling) for kind in every):
            yield IgnoredField(f"spec.sharedOptions.{spelling}", _UNKNOWN)
    for option in dataset.spec.shared_encrypt_options:
        if every and not any(_field_of(kind, option.name) for kind in every):
            yield IgnoredField(f"spec.sharedEncryptOptions.{option.name}", _UNKNOWN)


def patterns_of_references(dataset: Dataset) -> Iterable[IgnoredField]:
    """Patterns of mounts that are parts of other datasets."""
    for number, mount in enumerate(dataset.spec.mounts or ()):
        if mount.exclude and scheme_of(mount.mount_point) == DATASET:
            yield IgnoredField(f"spec.mounts[{number}].exclude", _NOT_OF_REFERENCE)


def _unknown_of_mount(mount: Mount, number: int, kind: str) -> Iterable[IgnoredField]:
    for field, names in (
        ("options", list(mount.options)),
        ("encryptOptions", [option.name for option in mount.encrypt_options]),
    ):
        for name in names:
            if not _field_of(kind, name):
                yield IgnoredField(f"spec.mounts[{number}].{field}.{name}", _UNKNOWN)


def shown_mount(mount: Mount, address: str) -> Mount:
    """A mount as a status may show it: without values that are credentials."""
    plain = {name: value for name, value in mount.options.items() if not is_secret(name)}
    return mount.model_copy(update={"options": plain, "mount_point": address})


def _yaml_spelling(option: Option) -> str:
    """The spelling that people know from the YAML of datasets, such as fs.oss.accessKeySecret."""
    return next((spelling for spelling in option.spellings if "." in spelling), option.spellings[0])


def _field_of(kind: str, spelling: str) -> str | None:
    option = find(kind, spelling) if kind in OPTIONS else None
    return option.field if option else None


def _of_runtime(secret: tuple[str, Iterable[str]] | None) -> dict[str, str | SecretKey | PlainOption]:
    if secret is None:
        return {}
    name, keys = secret
    return {key: SecretKey(name, key) for key in sorted(keys)}


def _of_words(
    words: Mapping[str, str], key: str, number: int | None
) -> dict[str, str | SecretKey | PlainOption]:
    return {
        name: PlainOption(key, number, name) if is_secret(name) or _means_more(value) else value
        for name, value in words.items()
    }


def _of_secrets(options: Iterable[EncryptOption]) -> dict[str, str | SecretKey | PlainOption]:
    return {option.name: SecretKey(*option.secret) for option in options}


def _means_more(value: str) -> bool:
    return value == "prompt" or value.startswith(("@", "env:"))
