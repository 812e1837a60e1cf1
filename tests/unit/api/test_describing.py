"""What `describe` prints, beside what the documents that Headrace follows show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headrace.api.describing import EventRow, describe_text, label_for

NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
# The seeds' dataset; they leave out what stands in Metadata and Spec.
DATASET = {
    "apiVersion": "data.fluid.io/v1alpha1",
    "kind": "Dataset",
    "metadata": {"name": "imagenet", "namespace": "default", "annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": "{}"
    }},
    "spec": {},
    "status": {
        "cacheStates": {"cacheCapacity": "200GiB", "cached": "0B", "cachedPercentage": "0%"},
        "conditions": [
            {
                "lastTransitionTime": "2020-08-18T11:01:09Z",
                "lastUpdateTime": "2020-08-18T11:02:48Z",
                "message": "The ddc runtime is ready.",
                "reason": "DatasetReady",
                "status": "True",
                "type": "Ready",
            }
        ],
        "phase": "Bound",
        "runtimes": [{"category": "Accelerate", "name": "imagenet", "namespace": "default", "type": "alluxio"}],
        "ufsTotal": "143.7GiB",
    },
}  # fmt: skip
PRINTED = """\
Name:         imagenet
Namespace:    default
Labels:       <none>
Annotations:  <none>
API Version:  data.fluid.io/v1alpha1
Kind:         Dataset
Metadata:
Spec:
Status:
  Cache States:
    Cache Capacity:     200GiB
    Cached:             0B
    Cached Percentage:  0%
  Conditions:
    Last Transition Time:  2020-08-18T11:01:09Z
    Last Update Time:      2020-08-18T11:02:48Z
    Message:               The ddc runtime is ready.
    Reason:                DatasetReady
    Status:                True
    Type:                  Ready
  Phase:                   Bound
  Runtimes:
    Category:   Accelerate
    Name:       imagenet
    Namespace:  default
    Type:       alluxio
  Ufs Total:    143.7GiB
Events:         <none>"""


def test_a_dataset_is_described_as_in_the_seeds() -> None:
    assert describe_text(DATASET, [], NOW) == PRINTED


def test_events_stand_in_a_table_the_latest_last() -> None:
    def event(reason: str, seconds: int, count: int = 1) -> EventRow:
        first = NOW - timedelta(seconds=seconds * 2)
        return EventRow("Normal", reason, "done ", "headrace", count, first, NOW - timedelta(seconds=seconds))

    text = describe_text(DATASET, [event("Late", 5), event("Early", 60, 3)], NOW)
    assert text.splitlines()[-5:] == [
        "Events:",
        "  Type    Reason  Age               From      Message",
        "  ----    ------  ----              ----      -------",
        "  Normal  Early   60s (x3 over 2m)  headrace  done",
        "  Normal  Late    5s                headrace  done",
    ]


@pytest.mark.parametrize(
    ("field", "label"),
    [
        ("apiVersion", "API Version"),
        ("uid", "UID"),
        ("ufsTotal", "Ufs Total"),
        ("currentWorkerNumberScheduled", "Current Worker Number Scheduled"),
        ("fs.oss.endpoint", "fs.oss.endpoint"),
        ("nodeSelectorTerms", "Node Selector Terms"),
        ("webUIURL", "Web UIURL"),
    ],
)
def test_fields_get_words_for_people(field: str, label: str) -> None:
    assert label_for(field) == label


def test_a_secret_shows_keys_and_lengths() -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "keys"},
        "data": {"id": "dmFsdWU=", "b": "****"},
    }
    text = describe_text(secret, [], NOW)
    assert text.splitlines()[-5:] == ["", "Data", "====", "b:   set", "id:  5 bytes"]
    assert "dmFsdWU" not in text


def test_labels_and_lists_stand_below_each_other() -> None:
    thing = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v", "labels": {"b": "2", "a": "1"}},
        "spec": {"accessModes": ["ReadWriteMany"], "readOnly": True, "empty": None},
    }
    assert describe_text(thing, [], NOW).splitlines() == [
        "Name:         v",
        "Labels:       a=1",
        "              b=2",
        "Annotations:  <none>",
        "API Version:  v1",
        "Kind:         PersistentVolume",
        "Metadata:",
        "Spec:",
        "  Access Modes:",
        "    ReadWriteMany",
        "  Empty:      <nil>",
        "  Read Only:  true",
        "Events:       <none>",
    ]


def test_keys_that_stand_in_clear_among_options_are_not_printed() -> None:
    options = {
        "fs.oss.accessKeyId": "id",
        "fs.oss.accessKeySecret": "hunter2",
        "fs.oss.endpoint": "oss.example",
    }
    spec = {
        "mounts": [{"mountPoint": "oss://a", "options": options}],
        "sharedOptions": {"aws.secretKey": "hunter2"},
    }
    text = describe_text({**DATASET, "spec": spec, "status": {}}, [], NOW)
    assert "hunter2" not in text
    assert "      fs.oss.accessKeySecret:  **********\n      fs.oss.endpoint:         oss.example" in text
