"""A request of an HTTP API as its endpoints read it: of the master, or of the supervisor of a local backend."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from headrace.errors import ConfigError
from headrace.settings.faults import fault_text, first_fault

_M = TypeVar("_M", bound=BaseModel)
_MOST_DIGITS = 18


@dataclass(frozen=True)
class Call:
    """A request that was let in: its query, its body, and the parts of its path that have a name."""

    query: dict[str, str]
    body: bytes
    parameters: dict[str, str] = field(default_factory=dict)

    def number(self, name: str, default: int = 0) -> int:
        """A number of the query. Raises `ConfigError`."""
        text = self.query.get(name, str(default))
        if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
            raise ConfigError.of(f"'{name}' is not a number")
        return int(text)

    def parse(self, model: type[_M]) -> _M:
        """The body as a message. Raises `ConfigError` that names the first wrong field, never its value."""
        try:
            return model.model_validate_json(self.body)
        except ValidationError as error:
            first = first_fault(error)
            place = ".".join(map(str, first["loc"])) or "body"
            raise ConfigError.of(f"request: {place}: {fault_text(first)}") from None
