"""Messages about jobs between commands and the supervisor. docs/format/local-api.md describes them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from headrace.jobs.views import ClaimView, JobView, NodeRoom
from headrace.local.protocol.messages import Message


class Submission(Message):
    """A job that somebody wants. `spec` has its secrets; `search_path` is the PATH of who asks."""

    spec: dict[str, Any] = Field(repr=False)
    search_path: str = Field(default="", max_length=65_536)


class Sentences(Message):
    """The sentences for a person."""

    sentences: tuple[str, ...] = ()


class JobViews(Message):
    """Jobs, the newest first."""

    jobs: tuple[JobView, ...] = ()


class ClaimViews(Message):
    """Volumes."""

    claims: tuple[ClaimView, ...] = ()


class NodeRooms(Message):
    """Nodes."""

    nodes: tuple[NodeRoom, ...] = ()


class JobName(Message):
    """The identity of a job."""

    uid: str = Field(max_length=64)


class EntryWish(Message):
    """A program that shall run in an instance of a job; no instance: the chief."""

    uid: str = Field(max_length=64)
    instance: str = Field(default="", max_length=253)


class Entry(Message):
    """The entry of such a program: in the place of a process, with the environment of the instance."""

    pid: int
    started_ticks: int
    folder: str
    environment: dict[str, str] = Field(repr=False)
    is_apart: bool


class LogQueryText(Message):
    """The selection of a job's lines, as a query asks for it."""

    uid: str
    instance: str = ""
    tail: int | None = None
    since: datetime | None = None
    timestamps: bool = False
    follow: bool = False
    all_instances: bool = False
