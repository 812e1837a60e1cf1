from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from memory_jobs import BEGIN, seed_view

from headrace.jobs import layouts
from headrace.jobs.documents import claim_document, job_document, node_document
from headrace.jobs.spec import JobKind
from headrace.jobs.tables import age, align, duration_s, short
from headrace.jobs.views import ClaimView, DataCost, JobEvent, JobPhase, NodeRoom

NOW = BEGIN + timedelta(minutes=56, seconds=31)
COST = DataCost(origin_bytes=3 << 30, peer_bytes=5 << 30, local_bytes=(143 << 30) + 1, stalled_s=12.34)

# Word for word as seed 000 prints it.
SEED_000 = """\
STATUS: RUNNING
NAMESPACE: default
PRIORITY: N/A
TRAINING DURATION: 56m

NAME              STATUS   TRAINER  AGE  INSTANCE                         NODE
horovod-resnet50  RUNNING  MPIJOB   56m  horovod-resnet50-launcher-xs7h4  192.168.0.15
horovod-resnet50  RUNNING  MPIJOB   56m  horovod-resnet50-worker-0        192.168.0.15
horovod-resnet50  RUNNING  MPIJOB   56m  horovod-resnet50-worker-1        192.168.0.14
horovod-resnet50  RUNNING  MPIJOB   56m  horovod-resnet50-worker-2        192.168.0.12
horovod-resnet50  RUNNING  MPIJOB   56m  horovod-resnet50-worker-3        192.168.0.13"""

# The same of seed 001, but for its addresses.
SEED_001 = """\
STATUS: RUNNING
NAMESPACE: default
PRIORITY: N/A
TRAINING DURATION: 16s

NAME                           STATUS   TRAINER  AGE  INSTANCE                                      NODE
horovod-resnet50-v2-4x8-fluid  RUNNING  MPIJOB   16s  horovod-resnet50-v2-4x8-fluid-launcher-xs7h4  192.168.0.15
horovod-resnet50-v2-4x8-fluid  RUNNING  MPIJOB   16s  horovod-resnet50-v2-4x8-fluid-worker-0        192.168.0.15"""


def test_get_prints_what_seed_000_shows() -> None:
    assert layouts.get_text(seed_view(), NOW) == SEED_000


def test_get_with_events_prints_what_seed_001_shows() -> None:
    view = seed_view("horovod-resnet50-v2-4x8-fluid")
    text = layouts.get_text(view, BEGIN + timedelta(seconds=16), events=True)
    assert text.startswith(SEED_001)
    assert "Events" not in text


def test_wide_says_what_reading_cost_beside_the_duration() -> None:
    lines = layouts.get_text(replace(seed_view(), data_cost=COST), NOW, wide=True).splitlines()
    assert lines[3:9] == [
        "TRAINING DURATION: 56m",
        "HIT RATIO: 98.0%",
        "FROM ORIGIN: 3.00GiB",
        "FROM PEERS: 5.00GiB",
        "LOCAL: 143.00GiB",
        "STALLED: 12.3s",
    ]
    assert layouts.get_text(seed_view(), NOW, wide=True).count("N/A") == 6


def test_amounts_that_are_not_the_jobs_alone_say_so() -> None:
    cost = replace(COST, is_shared=True, is_reckoned=True)
    text = layouts.get_text(replace(seed_view(), data_cost=cost), NOW, wide=True)
    assert "LOCAL: ~143.00GiB\n" in text
    assert "NOTE: other programs read through the same caches" in text
    assert "NOTE" not in layouts.get_text(replace(seed_view(), data_cost=COST), NOW, wide=True)
    assert job_document(replace(seed_view(), data_cost=cost), NOW)["dataCost"]["shared"] is True


def test_a_reason_stands_below_the_block_of_a_job_that_has_one() -> None:
    view = replace(
        seed_view(), phase=JobPhase.PENDING, reason="worker-0: no node has\n8 free GPUs", priority="high"
    )
    lines = layouts.get_text(view, NOW).splitlines()
    assert lines[:5] == [
        "STATUS: PENDING",
        "NAMESPACE: default",
        "PRIORITY: high",
        "TRAINING DURATION: 56m",
        "REASON: worker-0: no node has 8 free GPUs",
    ]


def test_events_stand_by_their_source() -> None:
    events = (
        JobEvent("Pod/b", "Warning", NOW - timedelta(seconds=5), "BackOff", "pulling\nfailed"),
        JobEvent("MPIJob/a", "Normal", NOW - timedelta(minutes=2), "Created", "made"),
        JobEvent("Pod/b", "Normal", NOW - timedelta(seconds=9), "Scheduled", "to node"),
    )
    text = layouts.get_text(replace(seed_view(), events=events), NOW, events=True)
    assert text.partition("Events:\n")[2] == (
        "SOURCE    TYPE     AGE  MESSAGE\n"
        "------    ----     ---  -------\n"
        "MPIJob/a  Normal   2m   [Created] made\n"
        "\n"
        "Pod/b     Normal   9s   [Scheduled] to node\n"
        "Pod/b     Warning  5s   [BackOff] pulling failed"
    )


def test_list_is_arenas_and_wide_adds_what_reading_cost() -> None:
    jobs = [replace(seed_view("a"), data_cost=COST), replace(seed_view("b", namespace="x"), instances=())]
    assert layouts.list_text(jobs, NOW) == (
        "NAME  STATUS   TRAINER  AGE  NODE\n"
        "a     RUNNING  MPIJOB   56m  192.168.0.15\n"
        "b     RUNNING  MPIJOB   56m  N/A"
    )
    head, first, _ = layouts.list_text(jobs, NOW, wide=True, with_namespace=True).splitlines()
    assert head.split("  ")[0] == "NAMESPACE"
    assert head.endswith("TRAINING DURATION  HIT RATIO  FROM ORIGIN  FROM PEERS  LOCAL      STALLED")
    assert first.endswith("56m                98.0%      3.00GiB      5.00GiB     143.00GiB  12.3s")


def test_waiting_is_not_training() -> None:
    waiting = replace(seed_view(), started=None)
    assert duration_s(waiting, NOW) == 0
    ended = replace(seed_view(), started=BEGIN + timedelta(seconds=10), ended=BEGIN + timedelta(seconds=40))
    assert duration_s(ended, NOW) == 30


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "0s"),
        (0, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (3599, "59m"),
        (3600, "1h"),
        (86399, "23h"),
        (86400, "1d"),
        (364 * 86400, "364d"),
        (365 * 86400, "1y"),
    ],
)
def test_durations_have_one_unit_rounded_down(seconds: float, text: str) -> None:
    assert short(seconds) == text


def test_an_unknown_moment_has_no_age() -> None:
    assert age(None, NOW) == "N/A"


def test_the_last_cell_of_a_line_is_not_padded() -> None:
    assert align([("a", "bb"), ("ccc", "d"), ()]) == "a    bb\nccc  d\n"
    assert align([]) == ""


def test_get_shows_the_gpus_of_each_instance_if_that_is_asked_for() -> None:
    text = layouts.get_text(seed_view(), NOW, gpus=True)
    assert text.startswith("STATUS: RUNNING\n")
    assert text.endswith(
        "\n\nGPUs:\n"
        "INSTANCE                         NODE(IP)      GPU(Requested)\n"
        "horovod-resnet50-launcher-xs7h4  192.168.0.15  0\n"
        "horovod-resnet50-worker-0        192.168.0.15  8\n"
        "horovod-resnet50-worker-1        192.168.0.14  8\n"
        "horovod-resnet50-worker-2        192.168.0.12  8\n"
        "horovod-resnet50-worker-3        192.168.0.13  8\n"
        "\nAllocated/Requested GPUs of Job: 32/32"
    )


def test_top_counts_gpus() -> None:
    text = layouts.top_job_text([seed_view(), replace(seed_view("b"), phase=JobPhase.SUCCEEDED)], NOW)
    assert text.splitlines()[1].split() == [
        "horovod-resnet50",
        "RUNNING",
        "MPIJOB",
        "56m",
        "32",
        "32",
        "192.168.0.15",
    ]
    assert text.splitlines()[2].split()[4:6] == ["32", "N/A"]
    assert text.endswith("64/64")
    assert "worker-3" in layouts.top_instances_text(seed_view(), NOW)
    nodes = [
        NodeRoom("a", 8, 8, 0, address="10.0.0.1", role="worker", allocated_gpus=2),
        NodeRoom("b", 0, 0, 0, ready=False),
    ]
    lines = layouts.top_node_text(nodes).splitlines()
    assert lines[1].split() == ["a", "10.0.0.1", "worker", "Ready", "8", "2"]
    assert lines[2].split() == ["b", "N/A", "<none>", "NotReady", "0", "0"]
    assert lines[-1] == "2/8 (25.0%)"
    assert layouts.top_node_text([]).endswith("0/0 (0.0%)")
    assert node_document(nodes[0])["allocatedGPUs"] == 2


def claim(name: str, **changed: object) -> ClaimView:
    return replace(ClaimView(name, "default", ("ReadWriteMany",), "Bound", BEGIN), **changed)


def test_data_list_shows_what_can_be_used_now() -> None:
    claims = [
        claim("imagenet", is_dataset=True, cached="52.4%"),
        claim("nfs", description="raw", owner="ann"),
        claim("new", phase="Pending"),
        claim("old", is_being_deleted=True),
    ]
    assert layouts.data_list_text(layouts.usable(claims), NOW) == (
        "NAME      ACCESSMODE     DESCRIPTION  OWNER  AGE  CACHED\n"
        "imagenet  ReadWriteMany  dataset             56m  52.4%\n"
        "nfs       ReadWriteMany  raw          ann    56m  N/A"
    )
    assert claim_document(claims[0], NOW)["cached"] == "52.4%"


def test_documents_have_arenas_names() -> None:
    view = replace(seed_view(), data_cost=COST, exit_code=0, ended=NOW, phase=JobPhase.SUCCEEDED)
    document = job_document(view, NOW)
    assert {
        *(
            "uuid",
            "name",
            "namespace",
            "duration",
            "status",
            "trainer",
            "tensorboard",
            "chiefName",
            "instances",
        ),
        *("priority", "requestGPUs", "allocatedGPUs", "creationTimestamp", "modelName", "modelVersion"),
        "modelSource",
    } <= set(document)
    assert (document["duration"], document["trainer"], document["chiefName"]) == (
        "3391s",
        "mpijob",
        "horovod-resnet50-launcher-xs7h4",
    )
    assert document["creationTimestamp"] == int(BEGIN.timestamp())
    assert document["exitCode"] == 0
    assert document["dataCost"]["hitRatio"] == pytest.approx(1 - 3 / 151)
    assert {"ip", "status", "name", "age", "node", "nodeIP", "chief", "requestGPUs", "gpuMetrics"} <= set(
        document["instances"][0]
    )
    assert job_document(seed_view(), NOW)["dataCost"] is None


def test_nothing_that_was_read_has_no_ratio() -> None:
    view = replace(seed_view(kind=JobKind.TF), data_cost=DataCost(0, 0, 0, 0.0))
    assert "HIT RATIO: N/A" in layouts.get_text(view, NOW, wide=True)


def test_deletions_are_told_as_seed_001_does() -> None:
    name = "horovod-resnet50-v2-4x8-fluid"
    assert layouts.deleted_line(f"mpijob.kubeflow.org/{name}") == f'mpijob.kubeflow.org "{name}" deleted'
    assert layouts.deleted_line(f"configmap/{name}-mpijob") == f'configmap "{name}-mpijob" deleted'
