"""The owner of files and processes."""

from __future__ import annotations

from pydantic import Field

from headrace.api.base import ApiModel, Identity


class User(ApiModel):
    """A user and a group, by number and by name."""

    uid: Identity = Field(description="Number of the user")
    gid: Identity = Field(description="Number of the group")
    user: str = Field(description="Name of the user")
    group: str = Field(description="Name of the group")
