"""The test cluster is a real one: its pods, networks, names, mounts and nodes behave as on any other."""

import functools
import http.server
import threading
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from .objects import pod, service

SERVE = "mkdir -p /srv; cat /etc/hostname > /srv/name; exec python3 -m http.server -d /srv 8080"
WAIT = "while :; do sleep 1; done"
FETCH = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=3).read().decode().strip())"
MOUNT_FUSE = """
    mkdir -p /shared/mounted
    exec python3 -c '
    import ctypes, os, time
    fuse = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
    libc = ctypes.CDLL("libc.so.6", use_errno=True)
    if libc.mount(b"headrace-probe", b"/shared/mounted", b"fuse", 0, options):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    open("/tmp/mounted", "w")
    time.sleep(3600)
    '
"""


def _run(kubernetes, namespace, name, *words):
    return kubernetes("exec", "-n", namespace, name, "--", *words)


def _wait_running(kubernetes, namespace, *names):
    pods = [f"pod/{name}" for name in names]
    kubernetes("wait", "--for=condition=Ready", "-n", namespace, *pods, "--timeout=300s")


def _node_is(kubernetes, name, status):
    conditions = kubernetes.get("node", name)["status"]["conditions"]
    return next(each["status"] for each in conditions if each["type"] == "Ready") == status


def test_all_nodes_are_ready_and_of_the_version_that_was_asked_for(kubernetes, cluster):
    nodes = kubernetes.get("nodes")["items"]
    assert [node["metadata"]["name"] for node in nodes] == [node.name for node in cluster.nodes]
    assert all(_node_is(kubernetes, node.name, "True") for node in cluster.nodes)
    assert {node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes} == {"v1.34.4"}


def test_pods_of_two_nodes_reach_each_other_by_the_names_of_services(kubernetes, cluster, namespace, tools):
    both = [
        pod(f"on-{node.name}", tools, SERVE, node=node.name, labels={"app": node.name})
        for node in cluster.nodes
    ]
    services = [service(node.name, {"app": node.name}, 8080) for node in cluster.nodes]
    headless = [
        service(f"{node.name}-all", {"app": node.name}, 8080, headless=True) for node in cluster.nodes
    ]
    kubernetes.apply(*both, *services, *headless, namespace=namespace)
    _wait_running(kubernetes, namespace, *(f"on-{node.name}" for node in cluster.nodes))
    for here in cluster.nodes:
        for there in cluster.nodes:
            for name in (there.name, f"{there.name}-all.{namespace}.svc.cluster.local"):
                url = f"http://{name}:8080/name"
                fetched = lambda url=url, here=here: _run(  # noqa: E731
                    kubernetes, namespace, f"on-{here.name}", "python3", "-c", FETCH, url
                )
                answers: list[str] = []
                kubernetes.wait(
                    lambda f=fetched, answers=answers: bool(answers.append(f().strip()) or answers[-1]),
                    f"{url} from {here.name}",
                )
                assert answers[-1] == f"on-{there.name}"


def test_a_pod_reaches_the_api_server_by_its_service_account(kubernetes, namespace, tools):
    kubernetes(
        "create",
        "clusterrolebinding",
        namespace,
        "--clusterrole=view",
        f"--serviceaccount={namespace}:default",
    )
    try:
        kubernetes.apply(pod("asks", tools, WAIT), namespace=namespace)
        _wait_running(kubernetes, namespace, "asks")
        shown = _run(
            kubernetes,
            namespace,
            "asks",
            "python3",
            "-c",
            f"""
import json, os, ssl, urllib.request
account = "/var/run/secrets/kubernetes.io/serviceaccount"
context = ssl.create_default_context(cafile=f"{{account}}/ca.crt")
for host in (os.environ["KUBERNETES_SERVICE_HOST"], "kubernetes.default"):
    url = f"https://{{host}}/api/v1/namespaces/{namespace}/pods"
    headers = {{"Authorization": "Bearer " + open(f"{{account}}/token").read()}}
    asked = urllib.request.Request(url, headers=headers)
    print(json.load(urllib.request.urlopen(asked, context=context))["items"][0]["metadata"]["name"])
""",
        )
        assert shown.split() == ["asks", "asks"]
    finally:
        kubernetes("delete", "clusterrolebinding", namespace)


@contextmanager
def _served(folder, address):
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer((address, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_pods_reach_a_server_of_this_machine_and_this_machine_reaches_services(
    kubernetes, cluster, namespace, tools, tmp_path
):
    (tmp_path / "file").write_text("from the machine")
    kubernetes.apply(
        pod("web", tools, SERVE, labels={"app": "web"}),
        service("web", {"app": "web"}, 8080),
        namespace=namespace,
    )
    _wait_running(kubernetes, namespace, "web")
    with _served(tmp_path, cluster.host_address) as port:
        url = f"http://{cluster.host_address}:{port}/file"
        assert _run(kubernetes, namespace, "web", "python3", "-c", FETCH, url).strip() == "from the machine"
    address = kubernetes.get("service", "web", "-n", namespace)["spec"]["clusterIP"]
    # As webhooks are called, through the API server, and straight from here.
    proxied = f"/api/v1/namespaces/{namespace}/services/web:8080/proxy/name"
    kubernetes.wait(lambda: kubernetes("get", "--raw", proxied).strip() == "web", "the service by the API")

    def straight() -> bool:
        try:
            return urllib.request.urlopen(f"http://{address}:8080/name", timeout=5).read().strip() == b"web"
        except OSError:
            return False  # this machine's rules follow those of the API server

    kubernetes.wait(straight, "the service straight from here")


def test_a_webhook_is_called_at_the_address_of_its_service(kubernetes, namespace, tools):
    """It has no certificate that the API server could trust, so the refusal tells that it was reached."""
    kubernetes.apply(
        pod("hook", tools, SERVE, labels={"app": "hook"}),
        service("hook", {"app": "hook"}, 8080),
        namespace=namespace,
    )
    _wait_running(kubernetes, namespace, "hook")
    hook = {
        "name": "hook.headrace.invalid",
        "clientConfig": {"service": {"name": "hook", "namespace": namespace, "port": 8080}},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    kubernetes.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": namespace},
            "webhooks": [hook],
        }
    )
    try:

        def refusal():
            try:
                kubernetes("create", "configmap", "x", "-n", namespace, "--dry-run=server")
            except RuntimeError as error:
                return str(error)
            return ""  # the API server has not heard of the webhook yet

        kubernetes.wait(
            lambda: "first record does not look like a TLS handshake" in refusal(), "a call of the webhook"
        )
    finally:
        kubernetes("delete", "validatingwebhookconfiguration", namespace)


def test_a_fuse_mount_of_one_pod_is_seen_by_another_and_gone_with_its_removal(
    kubernetes, cluster, namespace, tools
):
    node = cluster.nodes[0]
    folder = f"/var/lib/headrace/probe-{namespace}"
    volumes = {"/shared": {"hostPath": {"path": folder, "type": "DirectoryOrCreate"}}}
    on_node = {"node": node.name, "volumes": volumes}
    mounter = pod("mounts", tools, MOUNT_FUSE, privileged=True, propagation="Bidirectional", **on_node)
    reader = pod("reads", tools, WAIT, propagation="HostToContainer", **on_node)
    kubernetes.apply(mounter, reader, namespace=namespace)
    _wait_running(kubernetes, namespace, "mounts", "reads")

    def mounted(name):
        lines = _run(kubernetes, namespace, name, "cat", "/proc/self/mountinfo").splitlines()
        return any(line.split()[4] == "/shared/mounted" and " - fuse " in line for line in lines)

    kubernetes.wait(lambda: mounted("reads"), "the mount in the other pod")
    assert f"{folder}/mounted" in node.run("cat", "/proc/self/mountinfo")
    assert folder not in Path("/proc/self/mountinfo").read_text(), "no mount of a node reaches this machine"
    assert not Path(folder).exists(), "what a node writes stays its own"
    assert not cluster.nodes[1].path(folder).exists()
    _run(kubernetes, namespace, "mounts", "umount", "-l", "/shared/mounted")
    assert not mounted("reads")


def test_a_pod_that_needs_more_memory_than_its_limit_is_killed_for_it(kubernetes, namespace, tools):
    greedy = pod("greedy", tools, "exec python3 -c 'x = bytearray(200 << 20); print(len(x))'")
    greedy["spec"]["containers"][0]["resources"] = {"limits": {"memory": "64Mi"}}
    greedy["spec"]["restartPolicy"] = "Never"
    kubernetes.apply(greedy, namespace=namespace)

    def reason():
        statuses = kubernetes.get("pod", "greedy", "-n", namespace)["status"].get("containerStatuses", [{}])
        return statuses[0].get("state", {}).get("terminated", {}).get("reason")

    kubernetes.wait(lambda: reason() is not None, "the end of the pod")
    assert reason() == "OOMKilled"


def test_a_node_that_is_cut_off_is_not_ready_until_its_cable_is_back(kubernetes, cluster):
    node = cluster.nodes[1]
    node.cut()
    try:
        kubernetes.wait(lambda: _node_is(kubernetes, node.name, "Unknown"), "a lost node")
    finally:
        node.repair()
    kubernetes.wait(lambda: _node_is(kubernetes, node.name, "True"), "the node back")


def test_a_rebooted_node_starts_its_pods_again_and_keeps_its_disk(kubernetes, cluster, namespace, tools):
    node = cluster.nodes[1]
    volumes = {"/disk": {"hostPath": {"path": "/srv/kept", "type": "DirectoryOrCreate"}}}
    script = f"echo started >> /disk/{namespace}; {WAIT}"
    kubernetes.apply(pod("stays", tools, script, node=node.name, volumes=volumes), namespace=namespace)
    _wait_running(kubernetes, namespace, "stays")
    before = node.run("cat", "/proc/sys/kernel/hostname", "/proc/1/stat")
    node.reboot()

    def restarts():
        shown = kubernetes.get("pod", "stays", "-n", namespace)["status"]["containerStatuses"][0]
        return shown["restartCount"] if shown["ready"] else 0

    kubernetes.wait(lambda: restarts() == 1, "the pod's second start")
    assert node.run("cat", "/proc/sys/kernel/hostname", "/proc/1/stat") != before
    assert node.path(f"/srv/kept/{namespace}").read_text() == "started\n" * 2


@pytest.mark.parametrize("program", ["kubelet", "containerd", "kube-proxy"])
def test_a_killed_program_of_a_node_starts_again_and_its_pods_never_noticed(
    kubernetes, cluster, namespace, tools, program
):
    node = cluster.nodes[0]
    kubernetes.apply(pod("stays", tools, WAIT, node=node.name), namespace=namespace)
    _wait_running(kubernetes, namespace, "stays")
    node.kill(program)
    with pytest.raises(ProcessLookupError):
        node.kill(program)
    node.start()
    kubernetes.wait(
        lambda: _run(kubernetes, namespace, "stays", "ls", "/proc/1") != "", "a command in the pod"
    )
    status = kubernetes.get("pod", "stays", "-n", namespace)["status"]["containerStatuses"][0]
    assert status["restartCount"] == 0
    kubernetes.wait(lambda: _node_is(kubernetes, node.name, "True"), "a node that is ready")


@pytest.mark.parametrize(
    "program", ["kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "names"]
)
def test_a_killed_program_of_the_control_plane_starts_again_and_knows_what_it_knew(
    kubernetes, cluster, namespace, tools, program
):
    cluster.control_plane.kill(program)
    cluster.control_plane.start()
    kubernetes.wait(lambda: bool(kubernetes("get", "namespace", namespace)), "the API")
    look = "while ! getent hosts kubernetes.default; do sleep 0.2; done; sleep 60"
    kubernetes.wait(
        lambda: kubernetes.apply(pod("new", tools, look), namespace=namespace) is None, "a new pod"
    )
    found = lambda: kubernetes("logs", "-n", namespace, "new").split()[1:]  # noqa: E731
    kubernetes.wait(lambda: found() == ["kubernetes.default.svc.cluster.local"], "its name")
