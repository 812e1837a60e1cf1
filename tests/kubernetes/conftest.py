"""A real Kubernetes for the tests: one of their own, or any other that HEADRACE_KUBECONFIG leads to.

What the processes of the cluster last said is part of the report of a failure.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from charts import NAMESPACE, TEST_VALUES, Content, Release
from datasets_on_kubernetes import namespace_of
from installing import ROLLED_OUT, wait_until_ready

from headrace.testing.kubernetes.build_images import build_images
from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl, KubectlError
from headrace.testing.kubernetes.programs import lacking
from headrace.testing.kubernetes.tool_image import TOOL_IMAGE, tool_image

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
VARIABLE = "HEADRACE_KUBECONFIG"
IMAGES = "HEADRACE_IMAGES"
"""Where a cluster that is not the tests' own has images of this checkout: `REPOSITORY:TAG`, for
`REPOSITORY/operator:TAG` and `REPOSITORY/engine:TAG`."""
_CLUSTER = pytest.StashKey[Cluster]()
_KUBECTL = pytest.StashKey[Kubectl]()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Of this folder `make test` takes only what is marked as short."""
    item.add_marker(pytest.mark.kubernetes)
    # Whichever is the first brings up a cluster with the chart, for a minute and a half; the last takes it down.
    item.add_marker(pytest.mark.timeout(1800))


# Of the package, not of the session: after the last of these tests `make test` goes on, and a cluster that nobody
# asks for any more would take a tenth of a processor.
@pytest.fixture(scope="package")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of four nodes that can be cut off, rebooted and given images."""
    found = Cluster.open(Path(os.environ[VARIABLE]).parent) if os.environ.get(VARIABLE) else None
    if os.environ.get(VARIABLE) and found is None:
        pytest.skip(
            f"{VARIABLE} leads to a cluster whose nodes a test must not touch; for the chart alone set {IMAGES}"
        )
    if found is None and (reason := lacking()):
        pytest.skip(f"no Kubernetes of the tests' own: {reason}")
    folder = tmp_path_factory.mktemp("kubernetes")
    made = found or Cluster.up(
        folder / "state",
        nodes=4,
        images=(*build_images(), tool_image(folder / "tools.tar")),
        lives_with=os.getpid(),
    )
    request.session.stash[_CLUSTER] = made
    yield made
    del request.session.stash[_CLUSTER]
    if found is None:
        made.down()


@pytest.fixture(scope="package")
def kubernetes(request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """The kubectl of an administrator: of the cluster of HEADRACE_KUBECONFIG, else of the tests' own."""
    foreign = os.environ.get(VARIABLE)
    kubectl = Kubectl(Path(foreign)) if foreign else request.getfixturevalue("cluster").kubectl
    request.session.stash[_KUBECTL] = kubectl
    yield kubectl
    del request.session.stash[_KUBECTL]


@pytest.fixture(scope="package")
def crds(kubernetes: Kubectl) -> Kubectl:
    """The same, once the cluster knows Headrace's kinds."""
    kubernetes("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    kubernetes.wait_until_established("-f", str(CRDS))
    # The API server has established a kind some time before it serves it.
    kinds = {path.stem.partition("_")[2] for path in CRDS.glob("*.yaml")}
    kubernetes.wait(lambda: _served(kubernetes) >= kinds, "the API to serve the kinds")
    return kubernetes


def _served(kubernetes: Kubectl) -> set[str]:
    shown = json.loads(kubernetes("get", "--raw", "/apis/data.fluid.io/v1alpha1"))
    return {each["name"] for each in shown["resources"]}


@pytest.fixture(scope="package")
def installed(kubernetes: Kubectl) -> Iterator[Release]:
    """The chart, not necessarily installed. A cluster of the tests' own goes with all that is on it."""
    found = Release(kubernetes.kubeconfig, _values())
    yield found
    if os.environ.get(VARIABLE):
        _take_away(found, kubernetes)


@pytest.fixture(scope="module")
def release(request: pytest.FixtureRequest, kubernetes: Kubectl, installed: Release) -> Release:
    """The chart with images of this checkout and its own values, installed and ready. It stays for the next module."""
    if not os.environ.get(IMAGES):
        cluster: Cluster = request.getfixturevalue("cluster")
        for image in build_images():
            cluster.load_image(image)
    installed.install()
    wait_until_ready(kubernetes, *ROLLED_OUT)
    return installed


@pytest.fixture(scope="module", autouse=True)
def nothing_installed_that_is_not_asked_for(request: pytest.FixtureRequest) -> None:
    """The cluster as it is without the chart, for tests that know nothing of it."""
    tests = (item for item in request.session.items if isinstance(item, pytest.Function))
    is_asked_for = any("release" in each.fixturenames for each in tests if each.path == request.path)
    kubectl = request.session.stash.get(_KUBECTL, None)
    if kubectl is not None and not is_asked_for:
        _take_away(request.getfixturevalue("installed"), kubectl)


def _values() -> Content:
    if not (images := os.environ.get(IMAGES)):
        return TEST_VALUES
    repository, _, tag = images.rpartition(":")
    named = {name: {"repository": f"{repository}/{name}", "tag": tag} for name in ("operator", "engine")}
    return TEST_VALUES | {"image": named}


def _take_away(release: Release, kubernetes: Kubectl) -> None:
    release.uninstall()
    kubernetes("delete", "namespace", NAMESPACE, "--ignore-not-found")


@pytest.fixture(scope="package")
def tools(cluster: Cluster) -> str:
    """An image with a shell and Python, on all nodes."""
    cluster.load_image(tool_image(cluster.folder / "tools.tar"))
    return TOOL_IMAGE


@pytest.fixture
def namespace(request: pytest.FixtureRequest, kubernetes: Kubectl) -> Iterator[str]:
    """A namespace of the test's own, deleted with all that it holds at the end."""
    word = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    with namespace_of(kubernetes, word) as name:
        yield name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if call.excinfo is not None and not isinstance(call.excinfo.value, pytest.skip.Exception):
        if kubectl := item.session.stash.get(_KUBECTL, None):
            report.sections.append(("pods and events", _state(kubectl)))
        if cluster := item.session.stash.get(_CLUSTER, None):
            report.sections.append(("logs of the cluster", cluster.log_tails()))
    return report


def _state(kubectl: Kubectl) -> str:
    parts = []
    for words in (("get", "pods", "-A", "-o", "wide"), ("get", "events", "-A", "--sort-by=.lastTimestamp")):
        with contextlib.suppress(KubectlError, subprocess.TimeoutExpired):
            parts.append("\n".join(kubectl(*words, timeout_s=60).splitlines()[-60:]))
    return "\n\n".join(parts)
