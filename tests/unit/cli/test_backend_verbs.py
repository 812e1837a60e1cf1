"""kubectl's verbs with `headrace` in its place, against a real supervisor, beside what the seeds print."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import backends
import pytest

from headrace.cli.main import main
from headrace.exits import ExitCode
from headrace.local.layout import BackendLayout
from headrace.local.protocol.client import LocalClient
from headrace.local.store.database import Database
from headrace.local.store.event_log import EventLog
from headrace.local.store.object_store import Store
from headrace.local.store.records import Reference

SEEDS = Path(__file__).parents[1] / "api" / "seeds"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: mysecret}\nstringData: {id: topsecret}\n"
DATASET = """apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: NAME, finalizers: [FINALIZER]}
spec: {mounts: [{mountPoint: "s3://bucket", name: images}]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("state")
    with backends.backend(folder):
        yield folder


@pytest.fixture
def namespace(folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A namespace of the test's own, in the backend of all tests of this file."""
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(folder))
    return f"n{abs(hash(request.node.name)) % 10**8}"


def write(tmp_path: Path, text: str, name: str = "file.yaml") -> str:
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


def world(folder: Path) -> Store:
    return Store(Database(folder / "local" / "objects.db"))


def test_the_seeds_files_are_created_as_printed_there(headrace) -> None:
    code, out, _ = headrace(
        "create", "-f", str(SEEDS / "000-dataset.yaml"), "-f", str(SEEDS / "000-runtime.yaml")
    )
    assert code == 0
    assert out == (
        "secret/mysecret created\n"
        "dataset.data.fluid.io/imagenet created\n"
        "jindoruntime.data.fluid.io/imagenet created\n"
    )
    code, out, err = headrace("create", "-f", str(SEEDS / "000-runtime.yaml"))
    assert (code, out) == (ExitCode.CONFIG, "")
    assert 'jindoruntimes.data.fluid.io "imagenet" already exists' in err


def test_apply_says_what_it_did(headrace, tmp_path) -> None:
    file = write(tmp_path, DATASET.replace("NAME", "shop").replace(", finalizers: [FINALIZER]", ""))
    said = [headrace("apply", "-f", file)[1] for _ in range(2)]
    write(tmp_path, Path(file).read_text().replace("s3://bucket", "s3://other"))
    said.append(headrace("apply", "-f", file)[1])
    name = "dataset.data.fluid.io/shop"
    assert said == [f"{name} created\n", f"{name} unchanged\n", f"{name} configured\n"]


def test_apply_reads_standard_input_and_folders(headrace, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(SECRET))
    assert headrace("apply", "-f", "-")[1] == "secret/mysecret created\n"
    write(tmp_path, SECRET.replace("mysecret", "b"), "b.yaml")
    write(tmp_path, SECRET.replace("mysecret", "a"), "a.yml")
    write(tmp_path, "not yaml: [", "c.txt")
    assert headrace("apply", "-f", str(tmp_path))[1] == "secret/a created\nsecret/b created\n"


def test_every_fault_of_a_file_is_told_with_its_line(headrace, tmp_path) -> None:
    text = DATASET.replace("NAME", "Shop").replace("mounts", "mount").replace(", finalizers: [FINALIZER]", "")
    code, out, err = headrace("apply", "-f", write(tmp_path, text))
    assert (code, out) == (ExitCode.CONFIG, "")
    assert len(err.splitlines()) == 2
    assert "did you mean 'mounts'?" in err
    assert headrace("get", "dataset")[2].startswith("No resources found in n")


def test_of_a_file_with_a_fault_the_fate_of_each_object_is_told(headrace, tmp_path) -> None:
    dataset = DATASET.replace(", finalizers: [FINALIZER]", "")
    text = "---\n".join([dataset.replace("NAME", "first"), dataset.replace("NAME", "Odd"), SECRET])
    code, out, err = headrace("apply", "-f", write(tmp_path, text))
    assert (code, out) == (ExitCode.CONFIG, "")
    assert "'Odd' is not a name" in err.splitlines()[0]
    assert err.splitlines()[1:] == [
        "dataset.data.fluid.io/first left alone, since others have errors",
        "secret/mysecret left alone, since others have errors",
    ]


def test_what_is_refused_is_not_kept_and_hides_nothing(headrace, tmp_path) -> None:
    load = "apiVersion: data.fluid.io/v1alpha1\nkind: DataLoad\nmetadata: {name: NAME}\n"
    load += "spec: {dataset: {name: shop, namespace: WHERE}}\n"
    odd = load.replace("NAME", "odd").replace("WHERE", "elsewhere")
    fine = load.replace("NAME", "fine").replace(", namespace: WHERE", "")
    code, out, err = headrace("apply", "-f", write(tmp_path, "---\n".join([odd, SECRET, fine])))
    assert code == ExitCode.CONFIG
    assert out == "secret/mysecret created\ndataload.data.fluid.io/fine created\n"
    said = "spec.dataset.namespace: 'elsewhere' is not this object's namespace"
    assert err.startswith(f'error: the DataLoad "odd" is invalid: {said}')
    for kind in ("dataload", "all"):
        code, out, err = headrace("get", kind)
        assert (code, err, len(out.splitlines())) == (0, "", 2), out
        assert "fine" in out


def test_an_object_that_another_release_kept_is_shown_beside_the_others(
    headrace, folder, namespace, tmp_path
) -> None:
    headrace("apply", "-f", write(tmp_path, SECRET))
    with world(folder).changing() as transaction:
        content = {"spec": {"dataset": {"name": "shop", "namespace": "elsewhere"}, "policy": "Sometimes"}}
        transaction.create(Reference("DataLoad", namespace, "odd"), content)
        transaction.create(Reference("DataLoad", namespace, "fine"), {"spec": {"dataset": {"name": "shop"}}})
    for words in (
        ["get", "dataload"],
        ["describe", "dataload"],
        ["get", "all"],
        ["get", "dataload", "-o", "yaml"],
    ):
        code, out, err = headrace(*words)
        assert code == 0
        assert "odd" in out and "fine" in out
        assert err.startswith("warning: ") and "DataLoad odd: spec.policy" in err
        assert f"headrace delete dataload odd -n {namespace}" in err
    assert headrace("get", "secret")[0] == 0
    assert main(["status"]) == 0
    assert headrace("delete", "dataload", "odd")[0] == 0
    assert headrace("get", "dataload")[2] == ""


def test_tables_are_those_of_the_seeds(headrace, folder, namespace) -> None:
    headrace("apply", "-f", str(SEEDS / "000-dataset.yaml"), "-f", str(SEEDS / "000-runtime.yaml"))
    store = world(folder)
    store.set_status(
        store.need(Reference("Dataset", namespace, "imagenet")),
        {
            "ufsTotal": "143.67GiB",
            "phase": "Bound",
            "cacheStates": {"cached": "0.00B", "cacheCapacity": "648.00GiB", "cachedPercentage": "0.0%"},
        },
    )
    phases = {"masterPhase": "Ready", "workerPhase": "Ready", "fusePhase": "Ready"}
    store.set_status(store.need(Reference("JindoRuntime", namespace, "imagenet")), phases)
    _, out, _ = headrace("get", "dataset")
    head, row = out.splitlines()
    assert head == "NAME       UFS TOTAL SIZE   CACHED   CACHE CAPACITY   CACHED PERCENTAGE   PHASE   AGE"
    assert row.startswith(
        "imagenet   143.67GiB        0.00B    648.00GiB        0.0%                Bound   "
    )
    _, out, _ = headrace("get", "jindoruntime")
    head, row = out.splitlines()
    assert head == "NAME       MASTER PHASE   WORKER PHASE   FUSE PHASE   AGE"
    assert row.startswith("imagenet   Ready          Ready          Ready        ")


def test_objects_are_shown_in_every_form(headrace, tmp_path) -> None:
    headrace(
        "apply",
        "-f",
        write(tmp_path, DATASET.replace("NAME", "shop").replace(", finalizers: [FINALIZER]", "")),
    )
    assert headrace("get", "dataset/shop", "-o", "name")[1] == "dataset.data.fluid.io/shop\n"
    assert headrace("get", "dataset", "shop", "-o", "jsonpath={.spec.mounts[0].name}")[1] == "images\n"
    one = json.loads(headrace("get", "dataset", "shop", "-o", "json")[1])
    assert (one["kind"], one["spec"]["mounts"][0]["mountPoint"]) == ("Dataset", "s3://bucket")
    several = json.loads(headrace("get", "datasets,pv", "-o", "json")[1])
    assert (several["kind"], [each["kind"] for each in several["items"]]) == ("List", ["Dataset"])
    text = headrace("get", "dataset", "shop", "-o", "yaml")[1]
    assert text.startswith("apiVersion: data.fluid.io/v1alpha1\nkind: Dataset\nmetadata:\n  name: shop\n")
    assert headrace("apply", "-f", write(tmp_path, text, "again.yaml"))[0] == 0


def test_values_of_secrets_show_only_when_asked_for(headrace, tmp_path) -> None:
    headrace("apply", "-f", write(tmp_path, SECRET))
    coded = "dG9wc2VjcmV0"
    for words in (
        ("get", "secret", "mysecret", "-o", "yaml"),
        ("get", "secret", "-o", "json"),
        ("describe", "secret"),
    ):
        _, out, err = headrace(*words)
        assert "id" in out
        assert coded not in out + err
        assert "topsecret" not in out + err
    assert coded in headrace("get", "secret", "mysecret", "-o", "yaml", "--reveal-secrets")[1]
    assert headrace("get", "secret")[1].splitlines()[1].split()[:3] == ["mysecret", "Opaque", "1"]
    stars = headrace("get", "secret", "mysecret", "-o", "yaml")[1]
    code, _, err = headrace("apply", "-f", write(tmp_path, stars, "stars.yaml"))
    assert code == ExitCode.CONFIG
    assert "is not base64" in err


def test_describe_shows_no_events_of_an_earlier_object_of_the_name(
    headrace, folder, namespace, tmp_path
) -> None:
    file = write(tmp_path, DATASET.replace("NAME", "again").replace(", finalizers: [FINALIZER]", ""))
    headrace("apply", "-f", file)
    database = Database(folder / "local" / "objects.db")
    record = Store(database).need(Reference("Dataset", namespace, "again"))
    EventLog(database).add(record, "Warning", "SecretMissing", "Secret keys is not there")
    database.close()
    assert "SecretMissing" in headrace("describe", "dataset", "again")[1]
    headrace("delete", "-f", file)
    # Times of objects and events are whole seconds.
    time.sleep(1.1)
    headrace("apply", "-f", file)
    assert headrace("describe", "dataset", "again")[1].splitlines()[-1].split() == ["Events:", "<none>"]


def test_delete_takes_the_words_of_a_document_that_says_f_for_a_kind(headrace, namespace, tmp_path) -> None:
    file = write(tmp_path, DATASET.replace("NAME", "printed").replace(", finalizers: [FINALIZER]", ""))
    headrace("apply", "-f", file)
    code, out, err = headrace("delete", "-f", "dataset", "printed")
    assert (code, out) == (0, 'dataset.data.fluid.io "printed" deleted\n')
    assert "there is no file dataset" in err
    assert "headrace delete dataset printed" in err
    assert headrace("delete", "-f", "nosuch.yaml", "printed")[0] == ExitCode.NOT_FOUND
    assert headrace("delete", "-f", "dataset")[0] == ExitCode.NOT_FOUND


def test_describe_has_every_field_and_the_events(headrace, folder, namespace, tmp_path) -> None:
    headrace(
        "apply",
        "-f",
        write(tmp_path, DATASET.replace("NAME", "shop").replace(", finalizers: [FINALIZER]", "")),
    )
    database = Database(folder / "local" / "objects.db")
    record = Store(database).need(Reference("Dataset", namespace, "shop"))
    assert headrace("describe", "dataset", "shop")[1].splitlines()[-1].split() == ["Events:", "<none>"]
    EventLog(database).add(record, "Warning", "SecretMissing", "Secret keys is not there")
    database.close()
    lines = headrace("describe", "dataset/shop")[1].splitlines()
    assert lines[:6] == [
        "Name:         shop",
        f"Namespace:    {namespace}",
        "Labels:       <none>",
        "Annotations:  <none>",
        "API Version:  data.fluid.io/v1alpha1",
        "Kind:         Dataset",
    ]
    assert "    Mount Point:  s3://bucket" in lines
    assert lines[-1].split(maxsplit=4) == [
        "Warning",
        "SecretMissing",
        lines[-1].split()[2],
        "headrace",
        "Secret keys is not there",
    ]
    _, out, _ = headrace("events", "--for", "dataset/shop")
    assert out.splitlines()[0].split("   ")[0] == "LAST SEEN"
    assert out.splitlines()[1].split()[1:4] == ["Warning", "SecretMissing", "dataset/shop"]


def test_deletions_are_told_and_waited_for(headrace, folder, namespace, tmp_path) -> None:
    headrace("apply", "-f", write(tmp_path, DATASET.replace("NAME", "shop").replace("FINALIZER", "planner")))
    assert headrace("delete", "dataset", "shop", "--no-wait") == (
        0,
        'dataset.data.fluid.io "shop" deleted\n',
        "",
    )
    code, _, err = headrace("delete", "dataset", "shop", "--timeout", "10ms")
    assert code == ExitCode.UNREACHABLE
    assert "timed out waiting for the condition on datasets/shop" in err
    store = world(folder)
    finish = threading.Timer(
        0.3, lambda: store.set_finalizers(store.need(Reference("Dataset", namespace, "shop")), [])
    )
    finish.start()
    assert headrace("wait", "--for=delete", "dataset/shop") == (
        0,
        "dataset.data.fluid.io/shop condition met\n",
        "",
    )
    finish.join()
    code, _, err = headrace("delete", "dataset", "shop")
    assert code == ExitCode.NOT_FOUND
    assert 'datasets.data.fluid.io "shop" not found' in err
    assert headrace("delete", "dataset", "shop", "--ignore-not-found") == (0, "", "")


def test_a_file_takes_away_what_it_brought(headrace) -> None:
    files = ("-f", str(SEEDS / "000-dataset.yaml"))
    headrace("apply", *files)
    assert (
        headrace("delete", *files)[1]
        == 'secret "mysecret" deleted\ndataset.data.fluid.io "imagenet" deleted\n'
    )
    assert headrace("get", "dataset,secret")[1] == ""


def test_wait_returns_when_the_condition_is_met(headrace, folder, namespace, tmp_path) -> None:
    headrace(
        "apply",
        "-f",
        write(tmp_path, DATASET.replace("NAME", "shop").replace(", finalizers: [FINALIZER]", "")),
    )
    code, _, err = headrace("wait", "--for=condition=Ready", "dataset/shop", "--timeout=0s")
    assert (code, err.splitlines()[0]) == (6, "error: timed out waiting for the condition on datasets/shop")
    store = world(folder)
    status = {"phase": "Bound", "conditions": [{"type": "Ready", "status": "True"}]}
    ready = threading.Timer(
        0.3, lambda: store.set_status(store.need(Reference("Dataset", namespace, "shop")), status)
    )
    ready.start()
    assert headrace("wait", "--for=condition=Ready", "dataset/shop")[0] == 0
    assert headrace("wait", "--for=jsonpath={.status.phase}=Bound", "dataset", "shop")[0] == 0
    assert headrace("wait", "--for=condition=Ready", "dataset/none")[0] == ExitCode.NOT_FOUND
    ready.join()


def test_runtimes_are_scaled(headrace) -> None:
    headrace("apply", "-f", str(SEEDS / "000-runtime.yaml"))
    said = headrace("scale", "--replicas=2", "jindoruntime/imagenet")
    assert said == (0, "jindoruntime.data.fluid.io/imagenet scaled\n", "")
    assert headrace("get", "jindo", "imagenet", "-o", "jsonpath={.spec.replicas}")[1] == "2\n"
    assert headrace("scale", "--replicas=2", "--current-replicas=7", "jindo/imagenet")[0] == ExitCode.BUSY


def test_all_namespaces_show_theirs(headrace, namespace, tmp_path) -> None:
    headrace("apply", "-f", write(tmp_path, SECRET))
    lines = headrace("get", "secret", "-A", inside=False)[1].splitlines()
    assert lines[0].split()[:2] == ["NAMESPACE", "NAME"]
    assert [namespace, "mysecret"] in [line.split()[:2] for line in lines]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("get", "datset"), "did you mean 'dataset'?"),
        (("get",), "headrace get dataset imagenet"),
        (("get", "dataset", "-o", "table"), "known are"),
        (("wait", "dataset/x", "--for", "luck"), "--for takes"),
        (("wait", "dataset/x", "--for", "delete", "--timeout", "soon"), "30s, 5m or 1h30m"),
        (("delete", "dataset"), "say --all"),
        (("apply", "-f", "/none.yaml"), "is not there"),
        (("scale", "jindo/x"), "--replicas=4"),
    ],
)
def test_wrong_words_end_in_one_line_with_a_hint(headrace, words, hint) -> None:
    code, out, err = headrace(*words)
    assert (code in (ExitCode.CONFIG, ExitCode.NOT_FOUND), out) == (True, "")
    assert hint in err
    assert len(err.splitlines()) <= 2


def test_without_a_backend_the_hint_says_how_to_start_one(capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path))
    assert main(["get", "dataset"]) == ExitCode.NOT_FOUND
    assert "headrace up" in capsys.readouterr().err


def test_a_watcher_is_told_of_changes(namespace, folder, headrace, tmp_path) -> None:
    client = LocalClient(BackendLayout(folder / "local"))
    since = client.objects(["Dataset"]).resource_version
    watch = client.watch(["Dataset"], since=since, namespace=namespace)
    assert next(watch) is None
    headrace(
        "apply",
        "-f",
        write(tmp_path, DATASET.replace("NAME", "shop").replace(", finalizers: [FINALIZER]", "")),
    )
    seen = next(each for each in watch if each is not None)
    assert (seen.type, seen.object["metadata"]["name"]) == ("ADDED", "shop")
    headrace("delete", "dataset", "shop")
    assert next(each for each in watch if each is not None).type == "DELETED"
    watch.close()


def test_a_watched_table_goes_on_below_its_titles(namespace, folder, headrace, tmp_path) -> None:
    """The real command, since only a process can be interrupted."""
    headrace("apply", "-f", write(tmp_path, SECRET))
    command = [sys.executable, "-P", "-m", "headrace.cli.main", "get", "secret", "-w", "-n", namespace]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline() for _ in range(2)]
        headrace("apply", "-f", write(tmp_path, SECRET.replace("mysecret", "short")))
        lines.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == ExitCode.INTERRUPTED
    assert [line.split()[:2] for line in lines] == [
        ["NAME", "TYPE"],
        ["mysecret", "Opaque"],
        ["short", "Opaque"],
    ]
    assert len({line.index("O" if "Opaque" in line else "TYPE") for line in lines}) == 1


def _untimed(text: str) -> str:
    """Without how long ago something was: a second may pass between two looks."""
    return re.sub(r"\b\d+s\b", "", text)


def test_status_shows_nodes_and_objects(headrace, tmp_path) -> None:
    headrace("apply", "-f", write(tmp_path, SECRET))
    _, out, _ = headrace("status", "--local", inside=False)
    assert out.startswith("local backend\n  supervisor  process ")
    assert [line.split()[:2] for line in out.splitlines() if line.startswith("node-")] == [
        ["node-1", "Ready"]
    ]
    assert _untimed(headrace("status", inside=False)[1]) == _untimed(out)
    status = json.loads(headrace("status", "--local", "--json", inside=False)[1])
    assert status["nodes"][0]["labels"] == {"kubernetes.io/hostname": "node-1"}
    assert status["objects"]["Secret"] >= 1


def test_status_names_what_is_not_as_it_should_be(headrace, folder, namespace, tmp_path) -> None:
    text = DATASET.replace("NAME", "shop").replace(", finalizers: [FINALIZER]", "")
    headrace("apply", "-f", write(tmp_path, text))
    store = world(folder)
    record = store.need(Reference("Dataset", namespace, "shop"))
    condition = {"type": "Ready", "status": "False", "reason": "SecretMissing", "message": "create it"}
    store.set_status(record, {"conditions": [condition, {"type": "Degraded", "status": "False"}]})
    _, out, _ = headrace("status", "--local", inside=False)
    (line,) = [line for line in out.splitlines() if line.startswith(f"dataset/{namespace}/shop ")]
    assert line.split()[1:3] == ["Ready", "SecretMissing"]
    assert line.endswith("create it")
    status = json.loads(headrace("status", "--local", "-o", "json", inside=False)[1])
    reasons = {each["object"]["namespace"]: each["reason"] for each in status["troubles"]}
    assert reasons[namespace] == "SecretMissing"


def test_status_without_a_supervisor_tells_what_is_written_down(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path))
    with backends.backend(tmp_path, nodes=2) as client:
        backends.kill(client)
        capsys.readouterr()
        assert main(["status", "--local"]) == ExitCode.NOT_FOUND
        out = capsys.readouterr().out
        assert "supervisor  not running; `headrace up` takes over what runs" in out
        assert [line.split()[0] for line in out.splitlines() if line.startswith("node-")] == [
            "node-1",
            "node-2",
        ]
        assert main(["status", "--local", "--json"]) == ExitCode.NOT_FOUND
        status = json.loads(capsys.readouterr().out)
        assert (status["pid"], status["fault"].partition(";")[0]) == (0, "not running")


def test_logs_of_a_dataset_without_processes_say_so(headrace) -> None:
    code, _, err = headrace("logs", "dataset/imagenet")
    assert code == ExitCode.NOT_FOUND
    assert "has no process" in err


def test_the_nfs_volume_of_the_seeds_is_bound_as_printed_there(headrace, namespace) -> None:
    said = headrace("create", "-f", str(SEEDS / "003-nfs.yaml"))
    assert said[1] == "persistentvolume/nfs-imagenet created\npersistentvolumeclaim/nfs-imagenet created\n"
    assert headrace("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/nfs-imagenet")[0] == 0
    volume, claim = headrace("get", "pv,pvc")[1].split("\n\n")
    assert volume.splitlines()[1].split()[:-1] == [
        "persistentvolume/nfs-imagenet", "150Gi", "ROX", "Retain", "Bound", f"{namespace}/nfs-imagenet", "nfs",
    ]  # fmt: skip
    assert claim.splitlines()[1].split()[:-1] == [
        "persistentvolumeclaim/nfs-imagenet", "Bound", "nfs-imagenet", "150Gi", "ROX", "nfs",
    ]  # fmt: skip


def test_objects_are_patched(headrace, tmp_path) -> None:
    headrace("apply", "-f", write(tmp_path, DATASET.replace("NAME", "shop").replace("FINALIZER", "stuck")))
    headrace("delete", "dataset", "shop", "--no-wait")
    said = headrace("patch", "dataset", "shop", "-p", '{"metadata":{"finalizers": []}}', "--type=merge")
    assert said == (0, "dataset.data.fluid.io/shop patched\n", "")
    assert headrace("get", "dataset", "shop")[0] == ExitCode.NOT_FOUND
    assert headrace("patch", "dataset", "shop", "-p", "[1]")[0] == ExitCode.CONFIG


def test_values_of_secrets_are_in_no_file_but_the_database(headrace, folder, tmp_path) -> None:
    headrace("apply", "-f", write(tmp_path, SECRET))
    headrace("apply", "-f", write(tmp_path, SECRET.replace("topsecret", "plantedvalue")))
    headrace("create", "-f", write(tmp_path, SECRET))
    headrace("describe", "secret", "mysecret")
    headrace("get", "secret", "mysecret", "-o", "yaml", "--reveal-secrets")
    pid = LocalClient(BackendLayout(folder / "local")).hello().pid
    places = [
        path for path in (folder / "local").rglob("*") if path.is_file() and "objects.db" not in path.name
    ]
    places += [Path(f"/proc/{pid}/{name}") for name in ("cmdline", "environ")]
    told = b"".join(path.read_bytes() for path in places)
    for value in (b"topsecret", b"dG9wc2VjcmV0", b"plantedvalue", b"cGxhbnRlZHZhbHVl"):
        assert value not in told


def test_secrets_and_config_maps_are_made_of_words(headrace, folder, namespace, tmp_path) -> None:
    (tmp_path / "key").write_bytes(b"from a file\n")
    words = (
        "create",
        "secret",
        "generic",
        "keys",
        "--from-literal",
        "id=a=b",
        "--from-file",
        f"secret={tmp_path}/key",
    )
    assert headrace(*words)[:2] == (0, "secret/keys created\n")
    thing = world(folder).need(Reference("Secret", namespace, "keys")).thing()
    assert thing.values() == {"id": b"a=b", "secret": b"from a file\n"}
    code, _, err = headrace(*words)
    assert code != 0
    assert "already exists" in err
    assert (
        headrace("create", "configmap", "site", f"--from-file={tmp_path}/key")[1]
        == "configmap/site created\n"
    )
    thing = world(folder).need(Reference("ConfigMap", namespace, "site")).thing()
    assert thing.data == {"key": "from a file\n"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "what shall be made?"),
        (("dataset", "imagenet"), "this cannot be made from words"),
        (("secret", "generic"), "this cannot be made from words"),
        (("secret", "generic", "keys", "--from-literal", "hunter2"), "--from-literal is not KEY=VALUE"),
        (("secret", "generic", "keys", "--from-file", "/nowhere/key"), "/nowhere/key is not there"),
        (("secret", "generic", "Keys"), "is not a name"),
    ],
)
def test_words_that_make_nothing_are_refused(headrace, words: tuple[str, ...], said: str) -> None:
    code, out, err = headrace("create", *words)
    assert code in (ExitCode.CONFIG, ExitCode.NOT_FOUND)
    assert out == ""
    assert said in err
    assert "hunter2" not in err


def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """An editor that does one thing to its file."""
    program = tmp_path / "editor"
    program.write_text(f"#!/bin/sh\n{command}\n")
    program.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(program))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_an_object_is_edited(headrace, folder, namespace, tmp_path, monkeypatch) -> None:
    headrace("apply", "-f", write(tmp_path, DATASET.replace("NAME", "shop").replace("FINALIZER", "a/b")))
    editor(tmp_path, monkeypatch, 'cp "$1" "$0.seen"; sed -i "s|s3://bucket|s3://other|" "$1"')
    assert headrace("edit", "dataset", "shop")[:2] == (0, "dataset.data.fluid.io/shop edited\n")
    record = world(folder).need(Reference("Dataset", namespace, "shop"))
    assert record.thing().spec.mounts[0].mount_point == "s3://other"
    assert record.thing().metadata.finalizers == ("a/b",)
    shown = (tmp_path / "editor.seen").read_text()
    assert "status" not in shown
    assert "resourceVersion" not in shown
    assert not list(tmp_path.glob("headrace-*"))


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("true", 0, "nothing was changed"),
        (': > "$1"', 0, "nothing was changed"),
        ("exit 3", ExitCode.CONFIG, "ended with 3"),
        ('sed -i "s|mountPoint|mountpint|" "$1"', ExitCode.CONFIG, "did you mean 'mountPoint'"),
        ('sed -i "s|name: shop|name: other|" "$1"', ExitCode.CONFIG, "keeps its kind and its name"),
    ],
)
def test_an_edit_that_changes_nothing_or_is_wrong(
    headrace, tmp_path, monkeypatch, command: str, code: int, said: str
) -> None:
    headrace("apply", "-f", write(tmp_path, DATASET.replace("NAME", "shop").replace("FINALIZER", "a/b")))
    editor(tmp_path, monkeypatch, command)
    outcome = headrace("edit", "dataset", "shop")
    assert (outcome[0], outcome[1]) == (code, "")
    assert said in outcome[2]


def test_secrets_are_not_edited(headrace, tmp_path) -> None:
    headrace("apply", "-f", write(tmp_path, SECRET))
    assert "cannot be edited" in headrace("edit", "secret", "mysecret")[2]
