"""The base of every API model: frozen, camelCase in YAML, an unknown field is an error.

The limits of one field stand in its annotation; those of several fields together in `cross_faults`, and for the API
server in `rules`. Knows neither YAML nor any kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema

from headrace.process.deferred_model import DeferredModel

REVEAL = "reveal_secrets"
"""Key of the serialization context that makes a Secret write its values."""

Place = tuple[str | int, ...]
"""Where a value stands: field names as in YAML, and positions."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule of the CRD. The API server checks it before the object is stored."""

    rule: str
    message: str

    def schema(self) -> dict[str, str]:
        """The rule as `x-kubernetes-validations` has it."""
        return {"rule": self.rule, "message": self.message}


@dataclass(frozen=True, slots=True)
class CrossFault:
    """A fault of fields taken together, at `place` below the model that found it."""

    place: Place
    problem: str


class CrossFaultError(ValueError):
    """All cross faults of one model; pydantic carries it to whoever explains the failure."""

    def __init__(self, faults: tuple[CrossFault, ...]) -> None:
        super().__init__("; ".join(fault.problem for fault in faults))
        self.faults = faults


class ApiModel(DeferredModel):
    """A part of an object: an immutable value that was checked when it was made."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )
    rules: ClassVar[tuple[Rule, ...]] = ()

    def cross_faults(self) -> Iterator[CrossFault]:
        """The faults of fields taken together."""
        yield from ()

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        """A known field with nothing after the colon is an absent field, as the API server has it."""
        if not isinstance(value, Mapping):
            return value
        known = _names_of(cls)
        return {key: each for key, each in value.items() if each is not None or key not in known}

    @model_validator(mode="after")
    def _check_cross_faults(self) -> Self:
        faults = tuple(self.cross_faults())
        if faults:
            raise CrossFaultError(faults)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler.resolve_ref_schema(handler(core))
        if cls.rules:
            schema["x-kubernetes-validations"] = [rule.schema() for rule in cls.rules]
        return schema


def _names_of(model: type[BaseModel]) -> frozenset[str]:
    return frozenset(model.model_fields) | frozenset(yaml_names(model))


def yaml_names(model: type[BaseModel]) -> dict[str, str]:
    """The fields of a model: name in YAML → name in Python."""
    return {str(field.validation_alias or name): name for name, field in model.model_fields.items()}


Flag = Annotated[bool, Field(strict=True)]
"""`true` or `false`; the text "true" is refused, as the API server does."""

Count = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1, json_schema_extra={"format": "int32"})]
"""A whole number from 0."""

Positive = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1, json_schema_extra={"format": "int32"})]
"""A whole number from 1."""

Long = Annotated[int, Field(strict=True, ge=-(2**63), le=2**63 - 1, json_schema_extra={"format": "int64"})]
"""A whole number of 64 bits."""

Identity = Annotated[int, Field(strict=True, ge=0, le=2**32 - 2, json_schema_extra={"format": "int64"})]
"""A uid or gid."""

Words = dict[str, str]
"""A map of texts: options, properties, labels."""

Opaque = Annotated[
    dict[str, Any],
    Field(json_schema_extra={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]
"""An embedded Kubernetes type that is passed on as it stands."""
