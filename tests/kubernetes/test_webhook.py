"""The admission webhook before a real API server, with no more rights than the chart gives it.

It runs as two processes of this machine behind a Service of the cluster, so that the tests can freeze and kill them.
Most tests ask for a pod without making one: a dry run of the server goes through admission, too.
"""

from __future__ import annotations

import base64
import json
import signal
import ssl
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from webhook_process import (
    SERVICE,
    Replica,
    configuration,
    declared_configuration,
    kubeconfig_of,
    rights,
    service,
)

from headrace.webhook.affinity import PREFERRED, REQUIRED
from headrace.webhook.certificate_keeper import SECRET, Place
from headrace.webhook.certificate_rotation import Kept, data_of, read_kept
from headrace.webhook.certificates import make_pair
from headrace.webhook.data_nodes import MANAGED_LABEL, OPERATOR
from headrace.webhook.node_preference import HOST_LABEL, WEIGHT, scheduling_label

DATASET = "imagenet"


@dataclass(frozen=True)
class Webhook:
    """The webhook of these tests: its name in the API, its own namespace, and its processes."""

    name: str
    system: str
    replicas: tuple[Replica, ...]

    @property
    def place(self) -> Place:
        return Place(SERVICE, self.system, self.name)


@pytest.fixture(scope="module")
def webhook(crds, cluster, tmp_path_factory) -> Iterator[Webhook]:
    kubernetes, folder = crds, tmp_path_factory.mktemp("webhook")
    name = system = f"webhook-{uuid.uuid4().hex[:6]}"
    kubernetes("create", "namespace", system)
    kubernetes.apply(*rights(name, system))
    token = kubernetes("create", "token", SERVICE, "-n", system, "--duration=2h").strip()
    shown = json.loads(kubernetes("config", "view", "--raw", "--minify", "-o", "json"))
    limited = kubeconfig_of(token, folder / "kubeconfig", shown)
    replicas = tuple(
        Replica(limited, cluster.host_address, name, system, folder / f"replica-{number}.log")
        for number in range(2)
    )
    kubernetes.apply(*service(system, cluster.host_address, [each.port for each in replicas]))
    kubernetes.apply(configuration(name, system, "Fail"), declared_configuration(name, system))
    made = Webhook(name, system, replicas)
    try:
        for replica in replicas:
            replica.start()
        kubernetes.wait(
            lambda: all(each.is_ready() for each in replicas), "replicas that are ready", timeout_s=60
        )
        yield made
    finally:
        codes = [replica.end() for replica in replicas]
        kubernetes(
            "delete",
            "mutatingwebhookconfiguration,validatingwebhookconfiguration,clusterrole,clusterrolebinding",
            name,
            "--ignore-not-found",
        )
        kubernetes("delete", "namespace", system, "--wait=false")
    assert codes == [0, 0], [replica.log.read_text()[-2000:] for replica in replicas]


@pytest.fixture
def strict(kubernetes, webhook) -> Iterator[Webhook]:
    """A call of the webhook that fails, fails the pod: so none fails unseen."""
    yield from _policy(kubernetes, webhook, "Fail")


@pytest.fixture
def lenient(kubernetes, webhook) -> Iterator[Webhook]:
    """As the chart has it."""
    yield from _policy(kubernetes, webhook, "Ignore")


def _policy(kubernetes, webhook: Webhook, policy: str) -> Iterator[Webhook]:
    change = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": policy}]
    words = ("patch", "mutatingwebhookconfiguration", webhook.name, "--type=json", "-p", json.dumps(change))
    kubernetes(*words)
    yield webhook


@pytest.fixture
def place(kubernetes, namespace, webhook) -> str:
    """A namespace whose pods the webhook is asked about, with a dataset, its runtime and its claim."""
    kubernetes("label", "namespace", namespace, f"webhook={webhook.name}")
    group, here = "data.fluid.io/v1alpha1", {"name": DATASET, "namespace": namespace}
    mounts = [{"mountPoint": "https://example.org/data/", "name": DATASET}]
    labels = {MANAGED_LABEL: OPERATOR}
    claim = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    kubernetes.apply(
        {"apiVersion": group, "kind": "Dataset", "metadata": here, "spec": {"mounts": mounts}},
        {"apiVersion": group, "kind": "JindoRuntime", "metadata": here, "spec": {"replicas": 1}},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {**here, "labels": labels},
            "spec": claim,
        },
    )
    return str(namespace)


def at_home(kubernetes, namespace: str, *nodes: str) -> None:
    """Says where the data is, as the operator does."""
    term = {"matchExpressions": [{"key": HOST_LABEL, "operator": "In", "values": list(nodes)}]}
    status = {"status": {"cacheAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}} if nodes else None}}
    kubernetes(
        *("patch", "jindoruntime", DATASET, "-n", namespace, "--subresource=status"),
        *("--type=merge", "-p", json.dumps(status)),
    )


def pod(labels: dict[str, str] | None = None, affinity: Any = None, **metadata: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "none:1", "command": ["true"]}
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": DATASET}}
    spec = {"containers": [container], "volumes": [claim]} | ({"affinity": affinity} if affinity else {})
    named = metadata or {"generateName": "train-"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**named, "labels": labels or {}}, "spec": spec}


def admitted(kubernetes, namespace: str, content: dict[str, Any]) -> dict[str, Any]:
    """The pod as it would be created."""
    words = ("create", "-n", namespace, "--dry-run=server", "-o", "json", "-f", "-")
    return dict(json.loads(kubernetes(*words, stdin=json.dumps(content))))


def node_affinity(kubernetes, namespace: str, content: dict[str, Any]) -> Any:
    return admitted(kubernetes, namespace, content)["spec"].get("affinity", {}).get("nodeAffinity")


def on(*nodes: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": HOST_LABEL, "operator": "In", "values": list(nodes)}]}


def preferring(*nodes: str) -> dict[str, Any]:
    return {PREFERRED: [{"weight": WEIGHT, "preference": on(*nodes)}]}


def kept(kubernetes, webhook: Webhook) -> Kept:
    return read_kept(kubernetes.get("secret", SECRET, "-n", webhook.system))


def bundle(kubernetes, webhook: Webhook) -> str:
    (told,) = kubernetes.get("mutatingwebhookconfiguration", webhook.name)["webhooks"]
    return base64.b64decode(told["clientConfig"]["caBundle"]).decode()


def test_pods_prefer_the_nodes_that_hold_their_data_as_these_change(kubernetes, strict, place):
    assert node_affinity(kubernetes, place, pod()) is None
    for nodes in (("node-a",), ("node-a", "node-b")):
        at_home(kubernetes, place, *nodes)
        kubernetes.wait(
            lambda nodes=nodes: node_affinity(kubernetes, place, pod()) == preferring(*nodes), f"home {nodes}"
        )
    at_home(kubernetes, place)
    kubernetes.wait(lambda: node_affinity(kubernetes, place, pod()) is None, "no home")


def test_a_label_makes_it_a_must_and_the_api_server_takes_the_result(kubernetes, strict, place):
    at_home(kubernetes, place, "node-a")
    zone = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [zone]}}}
    content = pod({scheduling_label(DATASET): "required"}, affinity, name="train")
    both = {"matchExpressions": [*zone["matchExpressions"], *on("node-a")["matchExpressions"]]}
    kubernetes.wait(
        lambda: node_affinity(kubernetes, place, content) == {REQUIRED: {"nodeSelectorTerms": [both]}},
        "a must",
    )


def test_a_must_that_cannot_be_met_is_told_to_whoever_creates_the_pod(kubernetes, strict, place):
    content = pod({scheduling_label(DATASET): "required"})
    words = kubernetes.command("create", "-n", place, "--dry-run=server", "-f", "-")

    def told() -> str:
        return subprocess.run(
            words, input=json.dumps(content), capture_output=True, text=True, timeout=60, check=True
        ).stderr

    # A replica hears of the dataset and its claim a little later than the API server.
    kubernetes.wait(lambda: "no node holds data of it yet" in told(), "a warning")


def test_authors_learn_at_once_what_of_their_objects_is_refused(kubernetes, strict, place):
    words = kubernetes.command("create", "-n", place, "--dry-run=server", "-f", "-")

    def declared(kind: str, spec: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        version = "data.fluid.io/v1alpha1"
        content = {"apiVersion": version, "kind": kind, "metadata": {"name": "new"}, "spec": spec}
        return subprocess.run(
            words, input=json.dumps(content), capture_output=True, text=True, timeout=60, check=False
        )

    def is_warned() -> bool:
        done = declared("AlluxioRuntime", {"replicas": 1, "fuse": {"env": {"LD_PRELOAD": "/evil.so"}}})
        return done.returncode == 0 and "spec.fuse.env.LD_PRELOAD is not used" in done.stderr

    def is_refused() -> bool:
        mount = {"mountPoint": f"dataset://{strict.system}/secret", "name": "data"}
        done = declared("Dataset", {"mounts": [mount]})
        return done.returncode != 0 and f"not shared with namespace {place}" in done.stderr

    kubernetes.wait(is_warned, "a warning")
    kubernetes.wait(is_refused, "a refusal")


def test_helm_can_go_back_to_a_chart_that_names_the_path(kubernetes, strict):
    def path() -> str:
        (told,) = kubernetes.get("mutatingwebhookconfiguration", strict.name)["webhooks"]
        return str(told["clientConfig"]["service"]["path"])

    def is_announced() -> bool:
        return path().startswith("/pods/") and not holds()

    def holds() -> list[str]:
        words = ("mutatingwebhookconfiguration", strict.name, "--show-managed-fields")
        entries = kubernetes.get(*words)["metadata"]["managedFields"]
        return [
            each["manager"]
            for each in entries
            if "f:path" in json.dumps(each) and "Update" in each["operation"]
        ]

    apply = ("apply", "--server-side", "--field-manager=helm", "-f", "-")
    older, newer = (configuration(strict.name, strict.system, "Fail") for _ in range(2))
    del newer["webhooks"][0]["clientConfig"]["service"]["path"]
    # All but the path is helm's from here on.
    kubernetes(*apply, "--force-conflicts", stdin=json.dumps(newer))
    kubernetes.wait(is_announced, "a path that is nobody's own")
    # A conflict would be an error.
    kubernetes(*apply, stdin=json.dumps(older))
    kubernetes.wait(is_announced, "the path again")


def test_a_claim_that_is_somebody_elses_steers_nobody(kubernetes, strict, place):
    at_home(kubernetes, place, "node-a")
    kubernetes.wait(lambda: node_affinity(kubernetes, place, pod()) is not None, "a home")
    kubernetes("label", "pvc", DATASET, "-n", place, f"{MANAGED_LABEL}-")
    kubernetes.wait(lambda: node_affinity(kubernetes, place, pod()) is None, "no dataset's claim")


def test_pods_go_where_the_data_is(kubernetes, cluster, strict, place):
    names = [node.name for node in cluster.nodes]
    kubernetes("label", "namespace", place, "pod-security.kubernetes.io/enforce=privileged")
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": place},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": "/tmp"},
            "claimRef": {"namespace": place, "name": DATASET},
        },
    }
    kubernetes.apply(volume)
    try:
        for number, node in enumerate([*names, *names]):
            at_home(kubernetes, place, node)
            kubernetes.wait(
                lambda node=node: node_affinity(kubernetes, place, pod()) == preferring(node), node
            )
            created = f"train-{number}"
            kubernetes("create", "-n", place, "-f", "-", stdin=json.dumps(pod(name=created)))
            shown = ("get", "pod", created, "-n", place, "-o", "jsonpath={.spec.nodeName}")
            kubernetes.wait(lambda shown=shown: bool(kubernetes(*shown)), f"{created} scheduled")
            assert kubernetes(*shown) == node
    finally:
        kubernetes("delete", "pv", place, "--wait=false")


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_pods_are_created_while_the_webhook_is_down_and_steered_when_it_is_back(
    kubernetes, lenient, place, how
):
    at_home(kubernetes, place, "node-a")
    kubernetes.wait(lambda: node_affinity(kubernetes, place, pod()) is not None, "a home")
    for replica in lenient.replicas:
        if how == "killed":
            replica.end(signal.SIGKILL)
        else:
            replica.freeze()
    try:
        assert node_affinity(kubernetes, place, pod()) is None
    finally:
        for replica in lenient.replicas:
            if how == "killed":
                replica.start()
            else:
                replica.thaw()
    kubernetes.wait(lambda: node_affinity(kubernetes, place, pod()) is not None, "steered again")
    kubernetes.wait(lambda: all(replica.is_ready() for replica in lenient.replicas), "all replicas")


def test_both_replicas_serve_what_is_announced(kubernetes, strict, place):
    assert kept(kubernetes, strict).bundle == bundle(kubernetes, strict)
    for replica in strict.replicas:
        fetched = _served(replica)
        assert fetched == kept(kubernetes, strict).current.certificate


def test_a_certificate_is_rotated_while_pods_are_created_and_none_of_them_fails(kubernetes, strict, place):
    """A call that fails would fail the pod here. About a minute: replicas look three times a minute."""
    aged = make_pair(strict.place.names, datetime.now(UTC) - timedelta(days=61), timedelta(days=90))
    now = kept(kubernetes, strict)
    # As if the certificate had been made then: first believed, then served.
    _write(kubernetes, strict, Kept(now.current, next=aged, previous_authority=now.previous_authority))
    kubernetes.wait(lambda: aged.authority in bundle(kubernetes, strict), "announced")
    _write(kubernetes, strict, Kept(aged, previous_authority=now.current.authority))

    def is_rotated() -> bool:
        admitted(kubernetes, place, pod())
        found = kept(kubernetes, strict)
        done = found.current not in (aged, now.current) and not found.next and not found.previous_authority
        return done and bundle(kubernetes, strict) == found.bundle

    kubernetes.wait(is_rotated, "a new certificate alone", timeout_s=180)
    at_home(kubernetes, place, "node-a")
    kubernetes.wait(lambda: node_affinity(kubernetes, place, pod()) == preferring("node-a"), "steered")


def _write(kubernetes, webhook: Webhook, content: Kept) -> None:
    change = json.dumps([{"op": "replace", "path": "/data", "value": data_of(content)}])
    kubernetes("patch", "secret", SECRET, "-n", webhook.system, "--type=json", "-p", change)


def _served(replica: Replica) -> str:
    return ssl.get_server_certificate((replica.address, replica.port))
