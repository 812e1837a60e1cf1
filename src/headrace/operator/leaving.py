"""Objects that are to go and make no sense: as much of them as it takes to let them go. Pure."""

from __future__ import annotations

from pydantic import ValidationError

from headrace.api.dataset import Dataset, DatasetSpec, DatasetStatus
from headrace.api.metadata import ObjectMeta
from headrace.api.times import parse_time
from headrace.operator.mirror import Content


def is_leaving(content: Content) -> bool:
    """True when its deletion was asked for."""
    return bool(content["metadata"].get("deletionTimestamp"))


def dataset_that_leaves(content: Content) -> Dataset:
    """A Dataset by its metadata, and by what was said of it last. Even its name may be one that is not allowed."""
    metadata = content["metadata"]
    deleted = metadata.get("deletionTimestamp")
    known = ObjectMeta.model_construct(
        name=metadata["name"],
        namespace=metadata.get("namespace"),
        uid=metadata.get("uid"),
        generation=metadata.get("generation"),
        deletion_timestamp=parse_time(deleted) if deleted else None,
    )
    return Dataset.model_construct(metadata=known, spec=DatasetSpec(), status=_status(content))


def _status(content: Content) -> DatasetStatus | None:
    try:
        return DatasetStatus.model_validate(content.get("status") or {}, by_alias=True, by_name=False)
    except ValidationError:
        return None
