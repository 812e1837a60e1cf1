"""Notes on a job's pods in an annotation of the job, since pods go. Pure.

The form is in docs/format/job-annotations.md. Notes that cannot be read are taken for not written: pods are looked at
again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from headrace.api.times import format_time, parse_time
from headrace.jobs.spec import RoleName
from headrace.jobs.views import InstanceView
from headrace.kubeflow.names import KEPT_ANNOTATION, Content, annotations_of

_VERSION = 1
MOST_INSTANCES = 200
"""Annotations of an object have 256 KiB together: of a larger job the well ended ones are forgotten first."""
_LONGEST_REASON = 300
_TIMES = ("created", "started")


@dataclass(frozen=True, slots=True)
class KeptInstance:
    """A pod that has ended or is gone, as it was seen last."""

    view: InstanceView
    uid: str
    has_log: bool = False
    """Its log is kept."""


@dataclass(frozen=True, slots=True)
class Note:
    """The notes on a job."""

    instances: tuple[KeptInstance, ...] = ()
    started: datetime | None = None
    """When all its pods ran for the first time."""
    asked: datetime | None = None
    """Since when the logs of an ended job are asked for."""
    failing: str = ""
    """Why the keeper fails it, which takes several passes."""

    def of(self, uid: str) -> KeptInstance | None:
        """The kept facts of a pod."""
        return next((each for each in self.instances if each.uid == uid), None)

    def with_instance(self, kept: KeptInstance) -> Note:
        """The same with this pod as it is said here."""
        others = tuple(each for each in self.instances if each.uid != kept.uid)
        return replace(self, instances=(*others, kept))

    def with_log(self, uid: str) -> Note:
        """The same when the log of this pod is kept."""
        kept = self.of(uid)
        return self.with_instance(replace(kept, has_log=True)) if kept else self


def note_of(job: Content) -> Note:
    """The note of a job; an empty one where none can be read."""
    text = annotations_of(job).get(KEPT_ANNOTATION)
    try:
        said = json.loads(text) if text else {}
        return _note(said) if said.get("version") == _VERSION else Note()
    except (ValueError, TypeError, KeyError, AttributeError):
        return Note()


def text_of(note: Note) -> str:
    """The note as the annotation holds it."""
    said: dict[str, Any] = {
        "version": _VERSION,
        "instances": [_said(each) for each in _fitting(note.instances)],
    }
    if note.started:
        said["started"] = format_time(note.started)
    if note.asked:
        said["asked"] = format_time(note.asked)
    if note.failing:
        said["failing"] = note.failing
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False)


def _fitting(instances: Iterable[KeptInstance]) -> list[KeptInstance]:
    """Those that there is room for: first the launcher or master and those that failed."""
    everyone = list(instances)
    if len(everyone) <= MOST_INSTANCES:
        return everyone
    worth = sorted(everyone, key=lambda each: (not each.view.is_chief, each.view.exit_code in (0, None)))
    return worth[:MOST_INSTANCES]


def _said(kept: KeptInstance) -> dict[str, Any]:
    view = asdict(kept.view) | {"role": kept.view.role.value, "reason": kept.view.reason[:_LONGEST_REASON]}
    view |= {key: format_time(view[key]) for key in _TIMES if view[key]}
    empty = ("", None, 0, False)
    shown = {
        key: value for key, value in view.items() if value not in empty or (key == "exit_code" and value == 0)
    }
    return shown | {"uid": kept.uid} | ({"log": True} if kept.has_log else {})


def _note(said: Mapping[str, Any]) -> Note:
    started, asked = said.get("started"), said.get("asked")
    return Note(
        instances=tuple(_kept(each) for each in said.get("instances") or ()),
        started=parse_time(started) if started else None,
        asked=parse_time(asked) if asked else None,
        failing=str(said.get("failing") or ""),
    )


def _kept(said: Mapping[str, Any]) -> KeptInstance:
    known = {key: value for key, value in said.items() if key not in ("uid", "log", "role", *_TIMES)}
    times = {key: parse_time(said[key]) for key in _TIMES if said.get(key)}
    fields: dict[str, Any] = {"index": 0, "status": ""} | known | times
    view = InstanceView(**(fields | {"role": RoleName(said["role"])}))
    return KeptInstance(view, str(said["uid"]), bool(said.get("log")))
