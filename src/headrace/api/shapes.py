"""The structure of a model: which part a place of YAML belongs to, seen from the model's annotations."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from headrace.api.base import Place, yaml_names


def model_at(model: type[BaseModel], place: Place) -> type[BaseModel] | None:
    """The model whose fields stand at a place; `None` where there are no fields."""
    annotation: Any = model
    for part in place:
        annotation = _below(annotation, part)
    return next(_models(annotation), None)


def is_in_map(model: type[BaseModel], place: Place) -> bool:
    """True for a place inside a map with free keys, whose values may be anybody's secrets."""
    annotation: Any = model
    for part in place:
        if any(typing.get_origin(each) is dict for each in _alternatives(annotation)):
            return True
        annotation = _below(annotation, part)
    return annotation is None


def fields_below(
    model: type[BaseModel], path: str = ""
) -> Iterator[tuple[str, Any, BaseModel | type[BaseModel]]]:
    """Every field of a model and of the models in it: its path (`spec.mounts[].name`), its `FieldInfo`, its model."""
    for name, python_name in yaml_names(model).items():
        field = model.model_fields[python_name]
        here = f"{path}.{name}" if path else name
        suffix = "[]" if _is_list(field.annotation) else ""
        yield here + suffix, field, model
        for inner in _models(field.annotation):
            yield from fields_below(inner, here + suffix)


def _below(annotation: Any, part: str | int) -> Any:
    """The annotation one step down; `None` when it cannot be known."""
    for each in _alternatives(annotation):
        origin = typing.get_origin(each)
        if origin is dict:
            return typing.get_args(each)[1]
        if origin in {tuple, list} and isinstance(part, int):
            return typing.get_args(each)[0]
        if isinstance(each, type) and issubclass(each, BaseModel):
            name = yaml_names(each).get(str(part))
            if name is not None:
                return each.model_fields[name].annotation
    return None


def _alternatives(annotation: Any) -> Iterator[Any]:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        yield from _alternatives(typing.get_args(annotation)[0])
    elif origin in {types.UnionType, typing.Union}:
        for each in typing.get_args(annotation):
            yield from _alternatives(each)
    else:
        yield annotation


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    for each in _alternatives(annotation):
        if isinstance(each, type) and issubclass(each, BaseModel):
            yield each
        elif typing.get_origin(each) in {tuple, list}:
            yield from _models(typing.get_args(each)[0])


def _is_list(annotation: Any) -> bool:
    return any(typing.get_origin(each) in {tuple, list} for each in _alternatives(annotation))
