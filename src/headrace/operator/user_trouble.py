"""The trouble that keeps a pod that uses a dataset from beginning, where Kubernetes' own words do not say it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from headrace.operator.mirror import Content
from headrace.plan.dataset_events import Event, EventType
from headrace.work_queue import Dataset as Key

SUB_PATH_MISSING, SUB_PATH_REFUSED = "SubPathMissing", "SubPathRefused"
# Kubelet says no more than that it could not, lest it tell of files of the node. The folder it would make where it can.
_FAILED = re.compile(
    r'failed to (create|prepare) subPath (?:directory )?for volumeMount "([^"]+)" of container'
)
_MEANINGS = {
    "create": (
        SUB_PATH_MISSING,
        "that is not in dataset {title}, or is not there yet; its files are read-only, so that kubelet cannot make it: "
        "correct the subPath; if the storage has it by now, create a DataLoad with loadMetadata: true",
    ),
    "prepare": (
        SUB_PATH_REFUSED,
        "of dataset {title} that kubelet does not open: a link that leads out of the dataset, or a folder that could "
        "not be read at that moment: name a folder of the dataset itself; kubelet tries again by itself",
    ),
}


def user_events(pods: Iterable[Content], key: Key) -> Iterator[tuple[Content, Event]]:
    """The pods of which something is to be told, each with the event. Other volumes of a pod are not our business."""
    for pod in pods:
        for what in sorted(_failures(pod, key[1])):
            reason, meaning = _MEANINGS[what]
            message = f"a container names a subPath {meaning.format(title='/'.join(key))}"
            # Kubernetes' own items of a list do not say what they are.
            yield {"apiVersion": "v1", **pod}, Event("Pod", EventType.WARNING, reason, message)


def _failures(pod: Content, claim: str) -> set[str]:
    """What failed with a subPath in the volumes of this claim."""
    volumes = pod["spec"]["volumes"]
    found = filter(None, map(_FAILED.search, _waiting_words(pod)))
    return {each[1] for each in found if volumes.get(each[2]) == claim}


def _waiting_words(pod: Content) -> Iterator[str]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        for each in pod["status"].get(kind) or ():
            yield str(((each.get("state") or {}).get("waiting") or {}).get("message") or "")
