"""Facts about an object, one a type, with since when and why: the words that other programs may rely on."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field, JsonValue

from headrace.api.base import ApiModel
from headrace.api.times import Time

Truth = Literal["True", "False", "Unknown"]

ONE_A_TYPE: dict[str, JsonValue] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
"""Of a list of conditions, for the schema: each type once, and each may have its own writer."""


class DatasetConditionType(StrEnum):
    """The types of a dataset's conditions."""

    RUNTIME_SCHEDULED = "RuntimeScheduled"
    READY = "Ready"
    NOT_READY = "NotReady"
    UPDATE_READY = "UpdateReady"
    UPDATING = "Updating"
    INITIALIZED = "Initialized"
    DEGRADED = "Degraded"
    TERMINATING = "Terminating"
    FIELDS_IGNORED = "FieldsIgnored"
    CACHE_OVERCOMMITTED = "CacheOvercommitted"


class DatasetReason(StrEnum):
    """Reasons of a dataset's conditions, as Fluid's users know them."""

    READY = "DatasetReady"
    UPDATING = "DatasetUpdating"
    FAILED = "DatasetFailed"
    FAILED_TO_SETUP = "DatasetFailedToSetup"


class RuntimeConditionType(StrEnum):
    """The types of a runtime's conditions."""

    MASTER_INITIALIZED = "MasterInitialized"
    MASTER_READY = "MasterReady"
    WORKERS_INITIALIZED = "WorkersInitialized"
    WORKERS_READY = "WorkersReady"
    WORKERS_SCALED_IN = "WorkersScaledIn"
    WORKERS_SCALED_OUT = "WorkersScaledOut"
    FUSES_INITIALIZED = "FusesInitialized"
    FUSES_READY = "FusesReady"
    FUSES_SCALED_IN = "FusesScaledIn"
    FUSES_SCALED_OUT = "FusesScaledOut"
    TERMINATING = "Terminating"
    FIELDS_IGNORED = "FieldsIgnored"
    FIELDS_REFUSED = "FieldsRefused"


class OperationConditionType(StrEnum):
    """The ends of an operation, as types of its conditions."""

    COMPLETE = "Complete"
    FAILED = "Failed"
    WAITING = "Waiting"
    DEGRADED = "Degraded"
    FIELDS_IGNORED = "FieldsIgnored"


class DatasetCondition(ApiModel):
    """One fact about a dataset."""

    type: str = Field(description="Type of the condition, such as Ready")
    status: Truth = Field(description="Status of the condition: True, False or Unknown")
    reason: str | None = Field(default=None, description="Reason, in one word for programs")
    message: str | None = Field(default=None, description="Reason, in a sentence for people")
    last_update_time: Time | None = Field(default=None, description="Time of the last update")
    last_transition_time: Time | None = Field(default=None, description="Time at which status last changed")


class Condition(ApiModel):
    """One fact about a runtime or an operation."""

    type: str = Field(description="Type of the condition, such as WorkersReady or Complete")
    status: Truth = Field(description="Status of the condition: True, False or Unknown")
    reason: str | None = Field(default=None, description="Reason, in one word for programs")
    message: str | None = Field(default=None, description="Reason, in a sentence for people")
    last_probe_time: Time | None = Field(default=None, description="Time of the last check")
    last_transition_time: Time | None = Field(default=None, description="Time at which status last changed")
