"""What keeps a pod that uses a dataset from beginning, where Kubernetes' own words do not say it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.operator.mirror import Content
from headrace.plan.dataset_events import Event, EventType

SUB_PATH_MISSING = "SubPathMissing"
# Kubelet makes such a folder where it can, and says no more than that it could not.
_NOT_MADE = "failed to create subPath directory for volumeMount"


def user_events(pods: Iterable[Content], title: str) -> Iterator[tuple[Content, Event]]:
    """The pods of which something is to be told, each with the event."""
    for pod in pods:
        if any(_NOT_MADE in words for words in _waiting_words(pod)):
            message = (
                f"a container names a subPath that is not in dataset {title}, or is not there yet; its files are "
                "read-only, so that kubelet cannot make it: correct the subPath; if the storage has it by now, "
                "create a DataLoad with loadMetadata: true"
            )
            # Kubernetes' own items of a list do not say what they are.
            yield {"apiVersion": "v1", **pod}, Event("Pod", EventType.WARNING, SUB_PATH_MISSING, message)


def _waiting_words(pod: Content) -> Iterator[str]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        for each in pod["status"].get(kind) or ():
            yield str(((each.get("state") or {}).get("waiting") or {}).get("message") or "")
