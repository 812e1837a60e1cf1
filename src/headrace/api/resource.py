"""The base of all kinds: an object with a name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field

from headrace.api.base import ApiModel, CrossFault, Rule
from headrace.api.metadata import ObjectMeta
from headrace.api.names import LABEL_PATTERN, is_label

LABEL_NAME_RULE = Rule(
    f"self.metadata.name.size() <= 63 && self.metadata.name.matches('^{LABEL_PATTERN}$')",
    "metadata.name must be up to 63 lower-case letters, digits and '-', starting with a letter",
)


class Resource(ApiModel):
    """An object of the API."""

    named_as_label: ClassVar[bool] = False

    api_version: Any
    kind: Any
    metadata: ObjectMeta = Field(description="Name, namespace and labels of the object")

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def namespace(self) -> str | None:
        """Its namespace, if it says one."""
        return self.metadata.namespace

    def cross_faults(self) -> Iterator[CrossFault]:
        """Datasets and runtimes give their names to Services."""
        if self.named_as_label and not is_label(self.metadata.name):
            yield CrossFault(
                ("metadata", "name"),
                f"'{self.metadata.name[:64]}' is not a name for a {self.kind}: up to 63 lower-case letters, digits "
                "and '-', a letter first, no '-' last",
            )
