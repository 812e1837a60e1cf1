"""Objects as the store holds them: what was declared, and what the store itself knows of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.api.kinds import KINDS, Kind, Object
from headrace.api.manifests import Fault, InvalidObjectsError, object_of
from headrace.api.names import GROUP
from headrace.api.times import format_time
from headrace.errors import BusyError, ConfigError, CorruptDataError, MissingFileError

Content = Mapping[str, Any]
"""An object's values as in its YAML, without kind, status, and what of its metadata the store keeps."""

KEPT_METADATA = ("labels", "annotations", "ownerReferences")
"""What a person says in the metadata; all else is the store's."""


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """The key of an object: kind, namespace (empty for objects without one), name."""

    kind: str
    namespace: str
    name: str

    @property
    def about(self) -> Kind:
        """Its kind."""
        return KINDS[self.kind]

    def __str__(self) -> str:
        """`datasets.data.fluid.io "imagenet"`, as kubectl names it in errors."""
        group = "" if self.about.is_core else f".{GROUP}"
        return f'{self.about.plural}{group} "{self.name}"'


@dataclass(frozen=True, slots=True)
class Record:
    """One object at one moment."""

    reference: Reference
    uid: str
    generation: int
    resource_version: int
    created: datetime
    deleted: datetime | None
    finalizers: tuple[str, ...]
    content: Content
    status: Content | None
    damage: str = ""
    """What of its row cannot be read. Its content is empty then, and may take the place of nothing."""

    def document(self) -> dict[str, Any]:
        """The whole object as the API server would have it in JSON."""
        kind = self.reference.about
        rest = {key: value for key, value in self.content.items() if key != "metadata"}
        document = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": self._metadata(), **rest}
        return document if self.status is None else {**document, "status": dict(self.status)}

    def thing(self) -> Object:
        """The same as a typed value. Raises `InvalidObjectsError` for what makes no sense to this release."""
        if self.damage:
            raise InvalidObjectsError.of_faults([Fault(str(self.reference), 0, "", "", self.damage)])
        return object_of(self.document(), str(self.reference), lenient=True)

    def understood(self) -> Object | None:
        """The same; `None` for what makes no sense: another release may have taken it."""
        try:
            return self.thing()
        except InvalidObjectsError:
            return None

    def fault(self) -> InvalidObjectsError | None:
        """Why it makes no sense; `None` when it does."""
        try:
            self.thing()
        except InvalidObjectsError as error:
            return error
        return None

    def _metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {"name": self.reference.name}
        if self.reference.namespace:
            metadata["namespace"] = self.reference.namespace
        metadata |= self.content.get("metadata", {})
        metadata |= {"uid": self.uid, "resourceVersion": str(self.resource_version)}
        if not self.reference.about.is_core:
            metadata["generation"] = self.generation
        metadata["creationTimestamp"] = format_time(self.created)
        if self.deleted is not None:
            metadata |= {"deletionTimestamp": format_time(self.deleted), "deletionGracePeriodSeconds": 0}
        if self.finalizers:
            metadata["finalizers"] = list(self.finalizers)
        return metadata


def missing(reference: Reference) -> MissingFileError:
    """The error that there is no such object."""
    plural = reference.about.plural
    hint = f"headrace get {plural}{' -A' if reference.namespace else ''}"
    return MissingFileError.of(f"{reference} not found{_where(reference)}", hint=hint)


def already_there(reference: Reference) -> ConfigError:
    """The error that there is one already."""
    return ConfigError.of(
        f"{reference} already exists{_where(reference)}", hint="change it with headrace apply"
    )


def refuse_damaged(record: Record) -> None:
    """Raises `CorruptDataError` for an object of which nothing is known that a change could begin with."""
    if record.damage:
        raise CorruptDataError.of(
            f"{record.reference}: {record.damage}",
            hint="apply the whole object again, or delete it",
        )


def conflict(reference: Reference) -> BusyError:
    """The error that somebody else was faster."""
    return BusyError.of(
        f"{reference} cannot be changed: it has changed since it was read",
        hint="read it again, and make the change to what it is now",
    )


def _where(reference: Reference) -> str:
    return f" in namespace {reference.namespace}" if reference.namespace else ""
