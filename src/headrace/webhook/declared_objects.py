"""Objects that somebody declares, judged at once by the rules that the operator goes by later. Pure.

An object that can never be right is refused. Of one that the administrator's policy takes in part, the author is
warned: the operator goes by the policy anyway, so nothing depends on this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from headrace.api.dataset import Dataset
from headrace.api.kinds import RUNTIMES, Runtime, kind_of
from headrace.api.manifests import InvalidObjectsError, object_of
from headrace.plan.cache_folders import cache_folders
from headrace.plan.declared import referred_datasets
from headrace.plan.pod_policy import refused_fields
from headrace.plan.policy import Policy
from headrace.plan.reasons import Reason, Wait
from headrace.plan.runtimes import wanted_of

_MOST_WARNINGS = 16
_LONGEST = 250
"""An API server cuts warnings off at 256 bytes, and takes 4096 of all."""

Content = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A refusal with its reason, or warnings, or neither. `references` need the consent of their owners."""

    refusal: str = ""
    warnings: tuple[str, ...] = ()
    references: tuple[str, ...] = ()


def judge(content: Content, policy: Policy | None) -> Judgement:
    """The judgement on an object by itself."""
    try:
        thing = object_of(content, lenient=True)
    except InvalidObjectsError as error:
        return Judgement(refusal="; ".join(f"{each.path}: {each.problem}" for each in error.faults[:8]))
    namespace = str(thing.metadata.namespace)
    if isinstance(thing, Dataset):
        found = referred_datasets(thing)
        return Judgement(references=tuple(each for each in found if each.partition("/")[0] != namespace))
    if kind_of(thing).name in RUNTIMES:
        return Judgement(warnings=_shortened(list(_warnings(cast("Runtime", thing), policy))))
    return Judgement()


def _warnings(runtime: Runtime, policy: Policy | None) -> Iterator[str]:
    for field in refused_fields(runtime, policy):
        yield f"{field.path} is not used: {field.why}"
    folders = cache_folders(wanted_of(runtime), f"{runtime.namespace}/{runtime.name}", policy)
    if isinstance(folders, Wait) and folders.reason is Reason.CACHE_FOLDER_NOT_ALLOWED:
        yield f"the dataset will wait: {folders.message}"


def _shortened(warnings: list[str]) -> tuple[str, ...]:
    shown = [each if len(each) <= _LONGEST else f"{each[: _LONGEST - 3]}..." for each in warnings]
    if len(shown) > _MOST_WARNINGS:
        more = len(shown) - _MOST_WARNINGS + 1
        shown[_MOST_WARNINGS - 1 :] = [f"{more} more are named in the condition FieldsRefused"]
    return tuple(shown)


def is_unchanged(content: Content, before: Content | None) -> bool:
    """True when nothing is asked for that was not there before, or all of it is to go: that is nobody's to refuse.

    The operator and kubectl change finalizers and labels of objects that an earlier release took.
    """
    is_leaving = bool((content.get("metadata") or {}).get("deletionTimestamp"))
    return is_leaving or (before is not None and before.get("spec") == content.get("spec"))
