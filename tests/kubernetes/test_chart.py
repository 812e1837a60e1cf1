"""The chart on a real cluster: taken by its API server, running with its own rights, and upgraded."""

import base64
import functools
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from charts import CHART, EVERY_OPTION, NAMESPACE, TEST_VALUES, Content, Release, run_helm, template
from datasets_on_kubernetes import metrics_of, parts_of
from prometheus_kinds import kind_file

from headrace.cli.doctor import of_cluster
from headrace.cli.main import main
from headrace.diagnosis.findings import Finding, Level
from headrace.plan.volume import DRIVER
from headrace.testing.kubernetes.kubectl import Kubectl, KubectlError

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,  # a cluster, its images and every process of the chart
]


def _may(kubernetes: Kubectl, account: str, verb: str, resource: str, *words: str) -> bool:
    subject = f"--as=system:serviceaccount:{NAMESPACE}:{account}"
    try:
        return kubernetes("auth", "can-i", verb, resource, subject, *words).strip() == "yes"
    except KubectlError:
        return False


@pytest.fixture
def monitors(kubernetes: Kubectl) -> Iterator[None]:
    """The kinds of the Prometheus operator that the chart makes objects of."""
    files = [word for plural in ("servicemonitors", "podmonitors") for word in ("-f", str(kind_file(plural)))]
    kubernetes("apply", "--server-side", "--force-conflicts", *files)
    kubernetes.wait_until_established(*files)
    yield
    kubernetes("delete", *files)


@pytest.mark.parametrize("values", [{}, EVERY_OPTION], ids=["defaults", "everything"])
def test_the_api_server_takes_every_object(
    kubernetes: Kubectl, release: Release, monitors: None, values: dict
) -> None:
    objects = [each for each in yaml.load_all(template(values), yaml.CSafeLoader) if each]
    shown = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    words = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    said = kubernetes(*words, "-f", "-", stdin=shown)
    assert said.count("serverside-applied") == len(objects)


def test_a_second_installation_is_refused_and_told_of_the_first(release: Release) -> None:
    words = ("install", "second", str(CHART), "--namespace", "default", "--take-ownership")
    done = run_helm(*words, "--kubeconfig", str(release.kubeconfig), values=TEST_VALUES)
    assert done.returncode != 0
    assert f"already, as the release {NAMESPACE}/headrace" in done.stderr


def _upgrade_refused(release: Release, values: Content | None = None) -> str:
    """What helm says to an upgrade that it only looks at; nothing when it would do it."""
    words = (
        "upgrade",
        "headrace",
        str(CHART),
        "--namespace",
        NAMESPACE,
        "--dry-run=server",
        "--take-ownership",
    )
    done = run_helm(*words, "--kubeconfig", str(release.kubeconfig), values=TEST_VALUES | (values or {}))
    return done.stderr if done.returncode else ""


def _controller(name: str) -> Content:
    """A Deployment as Fluid's chart has it, without pods."""
    labels = {"control-plane": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "manager", "image": "none:1"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


@pytest.mark.parametrize("name", ["dataset-controller", "alluxioruntime-controller", "fluid-webhook"])
def test_it_is_refused_beside_controllers_of_fluid_unless_somebody_knows_better(
    kubernetes: Kubectl, release: Release, namespace: str, name: str
) -> None:
    assert _upgrade_refused(release) == ""
    kubernetes.apply(_controller(name), namespace=namespace)
    said = _upgrade_refused(release)
    assert f"Fluid is on this cluster (Deployment {namespace}/{name})" in said
    assert "uninstall it first" in said
    assert _upgrade_refused(release, {"besideFluid": True}) == ""
    kubernetes("-n", namespace, "delete", "deployment", name)
    assert _upgrade_refused(release) == ""


def test_what_fluid_has_left_is_told_apart_from_another_headrace(
    kubernetes: Kubectl, release: Release
) -> None:
    word, mark = "app.kubernetes.io/name", "controller-gen.kubebuilder.io/version"
    kind, driver = ("crd", "datasets.data.fluid.io"), ("csidriver", DRIVER)
    try:
        kubernetes("label", *driver, f"{word}=fluid", "--overwrite")
        assert f"The CSI driver {DRIVER} is on this cluster already, and not Headrace's" in _upgrade_refused(
            release
        )
        assert _upgrade_refused(release, {"besideFluid": True}) == ""
        kubernetes("label", *driver, f"{word}=headrace", "--overwrite")
        kubernetes("annotate", *kind, f"{mark}=v0.8.0")
        assert _upgrade_refused(release) == "", "kinds of Fluid that Headrace has taken over are its own"
        kubernetes("label", *kind, f"{word}-")
        assert "Fluid has left its kinds on this cluster (datasets.data.fluid.io)" in _upgrade_refused(
            release
        )
        assert _upgrade_refused(release, {"besideFluid": True}) == ""
        assert _upgrade_refused(release, {"crds": {"install": False}}) == ""
    finally:
        kubernetes("label", *driver, f"{word}=headrace", "--overwrite")
        kubernetes("label", *kind, f"{word}=headrace", "--overwrite")
        kubernetes("annotate", *kind, f"{mark}-")


def test_the_driver_is_registered_on_every_node(kubernetes: Kubectl, release: Release) -> None:
    nodes = kubernetes.get("csinodes")["items"]
    assert nodes
    for node in nodes:
        assert [each["name"] for each in node["spec"]["drivers"] or []] == [DRIVER]


def test_the_webhook_announces_its_authority_and_an_upgrade_keeps_it(
    kubernetes: Kubectl, release: Release
) -> None:
    def announced() -> dict[str, Any]:
        found = kubernetes.get("mutatingwebhookconfiguration", "headrace-webhook")
        return dict(found["webhooks"][0]["clientConfig"])

    kubernetes.wait(lambda: "caBundle" in announced(), "the webhook's authority")
    before = announced()
    assert before["service"]["path"].startswith("/pods/")
    release.install({"webhook": {"timeoutSeconds": 3}})
    found = kubernetes.get("mutatingwebhookconfiguration", "headrace-webhook")["webhooks"][0]
    assert found["timeoutSeconds"] == 3
    assert found["clientConfig"] == before


def test_the_doctor_finds_nothing_wrong_with_a_whole_installation(
    kubernetes: Kubectl, release: Release
) -> None:
    def faults() -> list[Finding]:
        found = of_cluster(str(kubernetes.kubeconfig), "default")
        return [each for each in found if each.level is Level.FAULT]

    kubernetes.wait(lambda: not faults(), "an installation without faults")


def test_the_bundle_of_an_installation_holds_its_logs_and_no_secret(
    kubernetes: Kubectl, release: Release, tmp_path: Path
) -> None:
    planted = "zqPlantedCredential0123"
    words = ("-n", "default", "secret", "generic", "planted", f"--from-literal=key={planted}")
    kubernetes("create", *words[2:], *words[:2])
    try:
        target = tmp_path / "b.tar.gz"
        command = (
            "support-bundle",
            "--kubeconfig",
            str(kubernetes.kubeconfig),
            "-n",
            "default",
            "-f",
            str(target),
        )
        assert main(list(command)) == 0
    finally:
        kubernetes("delete", "-n", "default", "secret", "planted")
    with tarfile.open(target) as archive:
        texts = {each.name: archive.extractfile(each).read().decode() for each in archive}
    assert any("/headrace-operator-" in name and name.endswith(".txt") for name in texts)
    assert "b/kubernetes/DaemonSet.json" in texts and f"b/kubernetes/{NAMESPACE}/Event.json" in texts
    encoded = base64.b64encode(planted.encode()).decode()
    assert not any(planted in text or encoded in text for text in texts.values())


def test_one_operator_leads(kubernetes: Kubectl, release: Release) -> None:
    def holder() -> str:
        lease = kubernetes.get("-n", NAMESPACE, "lease", "headrace-operator")
        return str(lease["spec"].get("holderIdentity", ""))

    kubernetes.wait(lambda: holder().startswith("headrace-operator-"), "a leader")


@pytest.mark.parametrize("component", ["operator", "jobs"])
def test_the_one_that_leads_says_so_to_prometheus(
    kubernetes: Kubectl, release: Release, component: str
) -> None:
    def leaders() -> list[float]:
        pods = parts_of(kubernetes, NAMESPACE, component)
        return [metrics_of(kubernetes, pod, 8080)[f"headrace_{component}_leads",] for pod in pods]

    kubernetes.wait(lambda: sum(leaders()) == 1, f"the page of the {component} that leads")


def test_accounts_may_do_what_they_need_and_no_more(kubernetes: Kubectl, release: Release) -> None:
    may = functools.partial(_may, kubernetes)
    assert may("headrace-operator", "watch", "datasets.data.fluid.io", "-A")
    assert may("headrace-operator", "patch", "datasets.data.fluid.io", "--subresource=status", "-A")
    assert not may("headrace-operator", "create", "pods", "-A")
    assert not may("headrace-operator", "create", "pods", "--subresource=exec", "-A")
    assert not may("headrace-operator", "patch", "nodes")
    assert not may("headrace-operator", "create", "clusterroles")
    assert may("headrace-webhook", "get", "secret/headrace-webhook-certificate", "-n", NAMESPACE)
    assert not may("headrace-webhook", "get", "secrets", "-n", NAMESPACE)
    assert not may("headrace-webhook", "get", "secrets", "-n", "default")
    assert not may("headrace-webhook", "patch", "mutatingwebhookconfiguration/another")
    assert not may("headrace-csi", "get", "pods", "-n", NAMESPACE)
    assert not may("headrace-csi", "list", "datasets.data.fluid.io", "-A")
