"""What an installation leaves: compared are all objects that the API server has, of every kind, and files of nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from charts import NAMESPACE, Release
from datasets_on_kubernetes import Bucket, HostLink, Reading, as_list, delete_pods, reader, runtime
from installing import ROLLED_OUT, wait_until_ready

from headrace.testing.kubernetes.build_images import build_images
from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl
from headrace.testing.s3_server import S3Server

pytestmark = [pytest.mark.root, pytest.mark.slow]

# Of these, Kubernetes makes and removes some all the time.
CHANGING = {"events", "events.events.k8s.io"}
KEPT = ".data.fluid.io"
FOLDERS = (
    "/var/lib/headrace",
    "/var/lib/kubelet/plugins",
    "/var/lib/kubelet/plugins_registry",
    "/var/lib/cache",
    "/mnt/jfs",
)


@pytest.fixture(scope="module")
def bucket(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    folder = tmp_path_factory.mktemp("s3")
    with S3Server(folder / "buckets", state=folder / "state", link=HostLink(cluster.host_address)) as server:
        made = Bucket(server)
        made.fill(count=8)
        yield made


@pytest.fixture
def release(cluster: Cluster, kubernetes: Kubectl) -> Release:
    """The chart, not installed, in a namespace that there is, since that is the administrator's."""
    for image in build_images():
        cluster.load_image(image)
    found = Release(kubernetes.kubeconfig)
    found.uninstall()
    kubernetes("delete", "namespace", NAMESPACE, "--ignore-not-found")
    kubernetes.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    return found


def _objects(kubernetes: Kubectl) -> set[str]:
    """Everything that the API server has."""
    kinds = kubernetes("api-resources", "--verbs=list", "-o", "name").split()
    asked = ",".join(kind for kind in kinds if kind not in CHANGING)
    shown = "{range .items[*]}{.kind} {.metadata.namespace} {.metadata.name}{'\\n'}{end}"
    return set(kubernetes("get", asked, "-A", "-o", f"jsonpath={shown}").splitlines())


def _files(cluster: Cluster) -> set[str]:
    """What lies on nodes and is no folder, and what is mounted there, in places that Headrace uses."""
    found = set()
    for node in cluster.nodes:
        search = f"find {' '.join(FOLDERS)} ! -type d 2>/dev/null || true"
        mounted = [line.split()[4] for line in node.run("cat", "/proc/self/mountinfo").splitlines()]
        found |= {f"{node.name}:{path}" for path in node.run("sh", "-c", search).splitlines()}
        found |= {f"{node.name}:a mount at {path}" for path in mounted if path.startswith(FOLDERS)}
    return found


def _await_end(kubernetes: Kubectl, before: set[str]) -> set[str]:
    """What is more than before, once it gets no less: Kubernetes collects what belonged to something by and by."""
    left = set()

    def is_done() -> bool:
        nonlocal left
        left = {each for each in _objects(kubernetes) - before if not each.endswith(KEPT)}
        return not left

    try:
        kubernetes.wait(is_done, "the end of all objects")
    except TimeoutError:
        return left
    return left


def test_an_installation_that_was_used_leaves_the_kinds_and_folders_of_nodes_with_nothing_mounted(
    kubernetes: Kubectl, cluster: Cluster, release: Release, bucket: Bucket, namespace: str
) -> None:
    objects, files = _objects(kubernetes), _files(cluster)
    assert len(objects) > 50, "the test sees what there is"
    release.install({"jindofs": _jindofs(bucket)})
    wait_until_ready(kubernetes, *ROLLED_OUT, "daemonset/headrace-jindofs-mount")
    _use(kubernetes, namespace, bucket)
    delete_pods(kubernetes, namespace)
    kubernetes("-n", namespace, "delete", "dataset,alluxioruntime", "--all", "--timeout=300s", timeout_s=330)
    kubernetes("-n", namespace, "delete", "secret", "keys")
    release.uninstall()
    assert _await_end(kubernetes, objects) == set()
    left = {each.partition(":")[2] for each in _files(cluster) - files}
    # Without a Dataset nobody sweeps: what the JindoFS way cached is left as documented.
    jindofs = (f"/var/lib/headrace/state/{NAMESPACE}/jindofs/", "/var/lib/cache/jindofs/")
    left = {each for each in left if not each.startswith(jindofs)}
    assert left <= {f"/var/lib/headrace/csi/{name}" for name in ("lock", "published")}


def _jindofs(bucket: Bucket) -> dict:
    server = bucket.server
    keys = {
        "access-key-id": server.credentials.access_key_id,
        "secret-access-key": server.credentials.secret_access_key,
    }
    options = {"endpoint": server.endpoint, "region": server.region, "path-style": "true"}
    cache = [{"path": "/var/lib/cache/jindofs", "quota": "100Mi", "medium": "SSD"}]
    return {
        "enabled": True,
        "namespaces": {"train": {"uri": f"s3://{bucket.name}/", "options": options, "credentials": keys}},
        "worker": {"cache": cache},
    }


def _use(kubernetes: Kubectl, namespace: str, bucket: Bucket) -> None:
    objects = (bucket.secret(), bucket.dataset(), runtime(), reader("reader"))
    kubernetes("-n", namespace, "create", "-f", "-", stdin=as_list(*objects))
    reading = Reading(kubernetes, namespace, ("reader",), bucket.digest())
    kubernetes.wait(lambda: reading.passes("reader") > 0, "a pass of the reader")


def test_a_new_installation_restarts_nothing_of_a_dataset_in_use(
    kubernetes: Kubectl, release: Release, bucket: Bucket, namespace: str
) -> None:
    def running() -> dict[str, tuple[str, int]]:
        """Each pod of the dataset: which one it is, and how often its container was started again."""
        pods = kubernetes.get("-n", namespace, "pods", "-l", "app.kubernetes.io/name=headrace")["items"]
        return {
            each["metadata"]["name"]: (
                each["metadata"]["uid"],
                each["status"]["containerStatuses"][0]["restartCount"],
            )
            for each in pods
        }

    release.install()
    wait_until_ready(kubernetes, *ROLLED_OUT)
    _use(kubernetes, namespace, bucket)
    reading = Reading(kubernetes, namespace, ("reader",), bucket.digest())
    before, led = running(), _leader(kubernetes)
    assert len(before) >= 4, "a master, two workers, and the reader's mount"
    release.uninstall()
    _begin_without_driver(kubernetes, namespace)
    release.install()
    wait_until_ready(kubernetes, *ROLLED_OUT)
    kubernetes.wait(lambda: _leader(kubernetes) not in ("", led), "the new operator to lead")
    for _ in range(2):  # the steps of the first look are taken before the second begins
        _await_look(kubernetes, namespace)
    reading.go_on()
    Reading(kubernetes, namespace, ("late",), bucket.digest()).begin()
    assert running() == before
    delete_pods(kubernetes, namespace)
    kubernetes("-n", namespace, "delete", "dataset", "--all", "--timeout=300s", timeout_s=330)
    release.uninstall()


def _begin_without_driver(kubernetes: Kubectl, namespace: str) -> None:
    """A pod beside the first one, which waits as the page of symptoms says."""
    node = kubernetes.get("-n", namespace, "pod", "reader")["spec"]["nodeName"]
    kubernetes.apply(reader("late", node), namespace=namespace)

    def told() -> list[str]:
        events = kubernetes.get("-n", namespace, "events", "--field-selector=involvedObject.name=late")
        return [each["message"] for each in events["items"]]

    waits = "timed out waiting for external-attacher of fuse.csi.fluid.io CSI driver"
    kubernetes.wait(lambda: any(waits in each for each in told()), "a word of the one who attaches volumes")
    kubernetes.wait(lambda: any("is not attached" in each for each in told()), "a word of kubelet")


def _await_look(kubernetes: Kubectl, namespace: str) -> None:
    """Returns when an operator has looked at the dataset: it says again what is taken away here."""
    words = ("-n", namespace, "dataset", "imagenet")
    patch = ("--subresource=status", "--type=merge", "-p", '{"status": {"ufsTotal": null}}')
    kubernetes("patch", *words, *patch)
    kubernetes.wait(lambda: bool(kubernetes.get(*words)["status"].get("ufsTotal")), "a look at the dataset")


def _leader(kubernetes: Kubectl) -> str:
    return str(
        kubernetes.get("-n", NAMESPACE, "lease", "headrace-operator")["spec"].get("holderIdentity", "")
    )


def test_what_processes_keep_for_themselves_stays_over_an_upgrade_and_comes_anew_with_an_installation(
    kubernetes: Kubectl, release: Release
) -> None:
    def kept() -> dict[str, str]:
        secrets = ("headrace-webhook-certificate", "headrace-operator-key")
        return {name: kubernetes.get("-n", NAMESPACE, "secret", name).get("data", {}) for name in secrets}

    release.install()
    wait_until_ready(kubernetes, *ROLLED_OUT)
    before = kept()
    assert all(before.values())
    release.install({"operator": {"replicas": 1}, "webhook": {"timeoutSeconds": 3}})
    wait_until_ready(kubernetes, *ROLLED_OUT)
    assert kept() == before
    kubernetes.wait(lambda: bool(_leader(kubernetes)), "a leader, once one of the old ones gave it back")
    release.uninstall()
    release.install()
    wait_until_ready(kubernetes, *ROLLED_OUT)
    after = kept()
    assert all(after.values())
    assert all(after[name] != before[name] for name in before)
    release.uninstall()
