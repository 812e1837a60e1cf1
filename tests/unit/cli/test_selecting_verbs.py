"""What a user of kubectl types first, against a real supervisor: selectors, labels, taints, nodes, all."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import backends
import pytest

from headrace.api.manifests import read_objects
from headrace.exits import ExitCode
from headrace.local.layout import BackendLayout
from headrace.local.protocol.client import LocalClient
from headrace.local.protocol.messages import Declaration, Named

DATASET = """apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: NAME, labels: {LABELS}}
spec: {mounts: [{mountPoint: "s3://bucket", name: images}]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("state")
    with backends.backend(folder, nodes=2):
        yield folder


@pytest.fixture
def namespace(folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A namespace of the test's own, with three datasets, in the backend of all tests of this file."""
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(folder))
    namespace = f"n{abs(hash(request.node.name)) % 10**8}"
    labels = {"a": "team: vision, tier: gold", "b": "team: speech", "c": ""}
    text = "---\n".join(DATASET.replace("NAME", n).replace("LABELS", each) for n, each in labels.items())
    documents = [
        thing.model_dump(by_alias=True, exclude_unset=True, mode="json")
        for thing in read_objects(text, "test")
    ]
    client = LocalClient(BackendLayout(folder / "local"))
    outcomes = client.declare(Declaration(verb="apply", namespace=namespace, objects=tuple(documents)))
    assert all(outcome.fault is None for outcome in outcomes)
    yield namespace
    client.delete([Named(kind="Dataset", namespace=namespace, name=name) for name in labels])


def names(out: str) -> list[str]:
    return [line.rpartition("/")[2] for line in out.splitlines()]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["-l", "team=vision"], ["a"]),
        (["-l", "team!=vision"], ["b", "c"]),
        (["--selector", "team in (vision, speech),!tier"], ["b"]),
        (["--field-selector", "metadata.name=c"], ["c"]),
        (["-l", "team", "--field-selector=metadata.name!=a"], ["b"]),
    ],
)
def test_objects_are_selected(headrace, words, found) -> None:
    assert names(headrace("get", "datasets", *words, "-o", "name")[1]) == found


def test_labels_are_shown(headrace, namespace) -> None:
    _, out, _ = headrace("get", "dataset", "--show-labels")
    assert [line.split()[-1] for line in out.splitlines()] == [
        "LABELS",
        "team=vision,tier=gold",
        "team=speech",
        "<none>",
    ]
    assert (
        headrace("get", "dataset", "-l", "team=nobody")[2]
        == f"No resources found in {namespace} namespace.\n"
    )


def test_names_and_selectors_exclude_each_other(headrace) -> None:
    for words in (
        ("get", "dataset", "a", "-l", "team"),
        ("delete", "dataset", "a", "-l", "team"),
        ("delete", "dataset", "--all", "-l", "team"),
        ("wait", "--for=create", "dataset", "a", "-l", "team"),
        ("logs", "a", "-l", "team"),
        ("get", "dataset", "-l", "a b"),
    ):
        code, out, err = headrace(*words)
        assert (code, out, len(err.splitlines())) == (ExitCode.CONFIG, "", 2), words


def test_selected_objects_are_waited_for_and_deleted(headrace) -> None:
    assert headrace("wait", "--for=create", "dataset", "-l", "team")[1].count("condition met") == 2
    assert headrace("delete", "dataset", "-l", "team=speech")[1] == 'dataset.data.fluid.io "b" deleted\n'
    assert headrace("delete", "dataset", "-l", "team=speech") == (0, "", "No resources found\n")
    assert names(headrace("get", "dataset", "-o", "name")[1]) == ["a", "c"]


def test_a_watch_tells_of_selected_objects_alone(headrace, namespace) -> None:
    """The real command, since only a process can be interrupted."""
    words = ["get", "dataset", "-w", "-l", "team=speech", "-o", "name", "-n", namespace]
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "headrace.cli.main", *words], stdout=subprocess.PIPE, text=True
    ) as process:
        lines = [process.stdout.readline()]
        for name in ("a", "b"):
            headrace("label", "dataset", name, "seen=yes")
        headrace("label", "dataset", "c", "team=speech")
        lines += [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == ExitCode.INTERRUPTED
    assert names("".join(lines)) == ["b", "b", "c"]


def test_objects_are_labelled_as_kubectl_does_it(headrace) -> None:
    name = "dataset.data.fluid.io/a"
    assert headrace("label", "dataset", "a", "stage=prod")[:2] == (0, f"{name} labeled\n")
    assert headrace("label", "dataset/a", "stage=prod")[:2] == (0, f"{name} not labeled\n")
    code, out, err = headrace("label", "dataset", "a", "stage=test")
    assert (code, out) == (ExitCode.CONFIG, "")
    assert "already has a value (prod), and --overwrite is false" in err
    assert headrace("label", "dataset", "a", "stage=test", "--overwrite")[1] == f"{name} labeled\n"
    assert headrace("get", "dataset", "a", "-o", "jsonpath={.metadata.labels.stage}")[1] == "test\n"
    assert headrace("label", "dataset", "a", "stage-")[1] == f"{name} unlabeled\n"
    code, out, err = headrace("label", "dataset", "a", "stage-")
    assert (out, err) == (f"{name} not labeled\n", 'label "stage" not found.\n')
    assert headrace("label", "dataset", "-l", "team", "seen=")[1].count("labeled") == 2
    assert headrace("annotate", "dataset", "--all", "note=a b: c")[1].count(" annotated") == 3
    assert headrace("get", "dataset", "c", "-o", "jsonpath={.metadata.annotations.note}")[1] == "a b: c\n"


@pytest.mark.parametrize(
    "words",
    [
        ("label", "dataset", "a"),
        ("label", "dataset", "x=y"),
        ("label", "dataset", "a", "x=not valid"),
        ("label", "dataset", "a", "=y"),
        ("label", "pods", "a", "x=y"),
        ("taint", "nodes", "node-1"),
        ("taint", "nodes", "node-1", "gpu:Never"),
        ("taint", "dataset", "a", "gpu:NoSchedule"),
        ("get", "nodes", "-w"),
    ],
)
def test_wrong_words_end_in_one_line_with_a_hint(headrace, words) -> None:
    code, out, err = headrace(*words, inside=words[0] != "taint")
    assert (code, out) == (ExitCode.CONFIG, "")
    assert err.startswith("error: ")
    assert "hint: " in err


def test_nodes_are_shown_labelled_and_tainted(headrace) -> None:
    _, out, _ = headrace("get", "nodes")
    head, *rows = out.splitlines()
    assert head.split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert [row.split()[:3] for row in rows] == [["node-1", "Ready", "<none>"], ["node-2", "Ready", "<none>"]]
    assert (
        headrace("label", "node", "node-2", "disk=ssd", "node-role.kubernetes.io/gpu=")[1]
        == "node/node-2 labeled\n"
    )
    assert headrace("get", "no", "-l", "disk=ssd", "-o", "name")[1] == "node/node-2\n"
    assert headrace("get", "nodes", "node-2")[1].splitlines()[1].split()[2] == "gpu"
    assert (
        headrace("taint", "nodes", "node-2", "gpu=v100:NoSchedule", inside=False)[1]
        == "node/node-2 tainted\n"
    )
    assert "already has taint gpu" in headrace("taint", "nodes", "node-2", "gpu:NoSchedule", inside=False)[2]
    assert "gpu=v100:NoSchedule" in headrace("get", "node/node-2", "-o", "wide")[1]
    document = json.loads(headrace("get", "node", "node-2", "-o", "json")[1])
    assert document["spec"]["taints"] == [{"key": "gpu", "value": "v100", "effect": "NoSchedule"}]
    assert "v100" in headrace("describe", "node", "node-2")[1]
    assert headrace("taint", "node", "node-2", "gpu-", inside=False)[1] == "node/node-2 untainted\n"
    assert 'taint "gpu" not found' in headrace("taint", "node", "node-2", "gpu-", inside=False)[2]
    code, _, err = headrace("get", "node", "node-9")
    assert (code, 'nodes "node-9" not found' in err) == (ExitCode.NOT_FOUND, True)
    assert (
        headrace("label", "node", "node-2", "disk-", "node-role.kubernetes.io/gpu-")[1]
        == "node/node-2 unlabeled\n"
    )


def test_all_shows_what_people_declare_and_no_secret(headrace, tmp_path) -> None:
    (tmp_path / "secret.yaml").write_text("{apiVersion: v1, kind: Secret, metadata: {name: s}}")
    headrace("apply", "-f", str(tmp_path / "secret.yaml"))
    assert names(headrace("get", "all", "-o", "name")[1]) == ["a", "b", "c"]
    assert headrace("get", "pods")[2].startswith("No resources found in n")


def test_events_are_selected_by_their_objects_and_their_own_fields(headrace, namespace, folder) -> None:
    from headrace.local.store.database import Database
    from headrace.local.store.object_store import Store
    from headrace.local.store.records import Reference

    database = Database(folder / "local" / "objects.db")
    store = Store(database)
    for name, kind, reason in (("a", "Warning", "AccessDenied"), ("b", "Normal", "DatasetReady")):
        with store.changing() as writer:
            record = writer.need(Reference("Dataset", namespace, name))
            writer.note_event(record, kind, reason, "told")
    database.close()

    def told(*words: str) -> list[str]:
        return [line.split()[2] for line in headrace(*words)[1].splitlines()[1:]]

    assert told("events") == told("get", "events") == ["AccessDenied", "DatasetReady"]
    assert told("events", "-l", "team=speech") == ["DatasetReady"]
    assert told("events", "--types=Warning") == ["AccessDenied"]
    assert told("get", "ev", "--field-selector", "involvedObject.name=b,type=Normal") == ["DatasetReady"]
    assert told("events", "--field-selector", "reason=AccessDenied") == ["AccessDenied"]
    assert headrace("events", "-l", "team=nobody")[2].startswith("No events found")
