"""A planned role as objects of Kubernetes: what its command reads is what the planner meant, and secrets stay apart."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from operator_context import SETTINGS
from planned import SEED, World

from headrace.cli.verbs import VERBS
from headrace.operator.rendering import workloads
from headrace.operator.rendering.naming import NOWHERE_LABEL, Names
from headrace.operator.rendering.render_context import PodWishes, RenderContext, wishes_of
from headrace.operator.rendering.role_files import settings_file
from headrace.operator.rendering.role_pods import on_nodes, pod_version
from headrace.operator.rendering.role_volumes import claims_of, volumes_of
from headrace.operator.rendering.secret_volumes import plain_options
from headrace.operator.rendering.sweeper_pods import sweeper
from headrace.operator.settings import Image
from headrace.plan.policy import Policy
from headrace.plan.roles import Role, RoleKind
from headrace.settings.environment import Environment
from headrace.settings.reading import role_settings
from headrace.settings.roles import MasterSettings, MemberSettings, WorkerSettings

NAMES = Names("default", "imagenet")
WORLD = RenderContext(SETTINGS, "http://10.96.0.7:8700")
PLAIN = SEED.replace(
    "options: {fs.oss.endpoint: oss-cn-shanghai.aliyuncs.com}",
    "options: {fs.oss.endpoint: oss-cn-shanghai.aliyuncs.com, fs.oss.accessKeyId: AKIDCLEAR}",
).replace(
    "        - {name: fs.oss.accessKeyId, valueFrom: {secretKeyRef: {name: mysecret, key: fs.oss.accessKeyId}}}\n",
    "",
)


def planned(text: str = SEED) -> dict[str, Role]:
    return {role.id: role for role in World.of(text).settle().roles}


@pytest.fixture(scope="module")
def roles() -> dict[str, Role]:
    return planned()


def rendered(roles: dict[str, Role], render_context: RenderContext = WORLD) -> list[dict[str, Any]]:
    """Everything that is applied, but for Secrets."""
    by_kind = {role.kind: role for role in roles.values()}
    nodes = ["node-1", "node-2"]
    return [
        workloads.master_set(by_kind[RoleKind.MASTER], NAMES, render_context),
        workloads.worker_set(by_kind[RoleKind.WORKER], nodes, 2, NAMES, render_context),
        workloads.mount_set(by_kind[RoleKind.MOUNT], nodes, NAMES, render_context),
        workloads.master_service(NAMES, render_context),
        workloads.worker_service(NAMES, render_context),
        workloads.settings_map(by_kind, NAMES, render_context),
        workloads.places_map({"node-1": ["/cache"]}, {"SSD": 1}, NAMES, SETTINGS),
        sweeper(NAMES, "node-1", ["/cache"], SETTINGS),
    ]


def test_each_command_takes_its_settings_file(roles: dict[str, Role], tmp_path: Path) -> None:
    read: dict[str, Any] = {}
    models = {"master": MasterSettings, "worker-0": WorkerSettings, "mount-node-1": MemberSettings}
    for name, model in models.items():
        file = tmp_path / f"{name}.yaml"
        file.write_text(settings_file(roles[name], NAMES, WORLD))
        given = {"worker-0": {"HEADRACE_WORKER_ID": "worker-0", "HEADRACE_WORKER_NODE": "node-1"}}
        given["mount-node-1"] = {"HEADRACE_MOUNT_NODE": "node-1"}
        read[name], _ = role_settings(model, file, Environment(given.get(name, {})))
    worker, mount = read["worker-0"], read["mount-node-1"]
    assert worker.master == mount.master == "http://10.96.0.7:8700"
    assert worker.fit_cache
    assert worker.lingers_drained
    assert worker.cache == tuple(folder.word() for folder in roles["worker-0"].cache)
    assert str(mount.mountpoint) == "/var/lib/headrace/mounts/default/imagenet"
    assert read["master"].listen == ":8700"


def test_every_object_is_plain_json(roles: dict[str, Role]) -> None:
    for content in rendered(roles):
        assert json.loads(json.dumps(content)) == content


@pytest.mark.parametrize("kind", ["master", "worker"])
def test_who_asks_the_storage_may_ask_from_a_reserved_port_and_nothing_else(
    roles: dict[str, Role], kind: str
) -> None:
    """NFS servers usually answer no others."""
    (workload,) = (
        each
        for each in rendered(roles)
        if each["kind"] == "StatefulSet" and each["metadata"]["name"].endswith(kind)
    )
    for container in workload["spec"]["template"]["spec"]["containers"]:
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}


def test_a_value_that_stands_in_clear_is_in_the_secret_of_options_alone() -> None:
    world = World.of(PLAIN)
    roles = {role.id: role for role in world.settle().roles}
    assert world.dataset is not None
    values = plain_options(roles["master"], {"default/imagenet": world.dataset})
    assert list(values.values()) == ["AKIDCLEAR"]
    encoded = base64.b64encode(b"AKIDCLEAR").decode()
    for content in rendered(roles):
        assert "AKIDCLEAR" not in json.dumps(content)
        assert encoded not in json.dumps(content)
    content = workloads.secret(NAMES.options, values, NAMES, WORLD)
    assert "stringData" not in content
    assert [base64.b64decode(each) for each in content["data"].values()] == [b"AKIDCLEAR"]
    volumes, _ = volumes_of(roles["worker-0"], NAMES, WORLD)
    (sources,) = [each["projected"]["sources"] for each in volumes if "projected" in each]
    assert {item["key"] for each in sources for item in each["secret"]["items"]} >= set(content["data"])


@pytest.mark.parametrize("kind", list(RoleKind))
def test_what_a_person_wishes_changes_no_selector(roles: dict[str, Role], kind: RoleKind) -> None:
    labels = {"app.kubernetes.io/name": "mine", "headrace.io/dataset": "theirs", "team": "vision"}
    wished = replace(WORLD, wishes={kind: PodWishes(labels=labels)})
    for plain, other in zip(rendered(roles), rendered(roles, wished), strict=True):
        assert plain.get("spec", {}).get("selector") == other.get("spec", {}).get("selector")
        template = other.get("spec", {}).get("template")
        if template:
            assert other["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


OTHERWISE = [
    replace(WORLD, settings=replace(SETTINGS, engine=Image("headrace/engine:2"))),
    replace(WORLD, settings=replace(SETTINGS, node_folder="/data/headrace")),
    replace(WORLD, settings=replace(SETTINGS, log_level="debug")),
    replace(WORLD, settings=replace(SETTINGS, log_format="text")),
    replace(WORLD, master="http://10.96.0.8:8700"),
    replace(WORLD, wishes={RoleKind.WORKER: PodWishes(environment=({"name": "A", "value": "b"},))}),
    replace(WORLD, wishes={RoleKind.MASTER: PodWishes(tolerations=({"operator": "Exists"},))}),
    replace(WORLD, settings=replace(SETTINGS, policy=Policy(mount_priority_class="mounts"))),
    replace(WORLD, settings=replace(SETTINGS, policy=Policy(environment=("A",)))),
    replace(WORLD, settings=replace(SETTINGS, identity="operator-2", health_port=1, lease="other")),
]


@pytest.mark.parametrize("other", OTHERWISE)
@pytest.mark.parametrize("kind", list(RoleKind))
def test_a_version_changes_when_the_pod_would_be_made_otherwise_and_only_then(
    roles: dict[str, Role], kind: RoleKind, other: RenderContext
) -> None:
    role = next(each for each in roles.values() if each.kind is kind)

    def made(render_context: RenderContext) -> str:
        sets = {content["metadata"]["name"]: content for content in rendered(roles, render_context)}
        name = {RoleKind.MASTER: NAMES.master, RoleKind.WORKER: NAMES.worker, RoleKind.MOUNT: NAMES.mount}
        template = sets[name[kind]] if kind is RoleKind.MOUNT else workload(kind, roles, render_context)
        spec = template["spec"]["template"]["spec"]
        return json.dumps(spec) + settings_file(role, NAMES, render_context)

    same = made(WORLD) == made(other)
    assert (pod_version(role, WORLD) == pod_version(role, other)) == same


def workload(kind: RoleKind, roles: dict[str, Role], render_context: RenderContext) -> dict[str, Any]:
    component = "app.kubernetes.io/component"
    return next(
        content
        for content in rendered(roles, render_context)
        if content["kind"].endswith("Set") and content["metadata"]["labels"][component] == kind
    )


def test_on_no_nodes_nothing_runs() -> None:
    (term,) = on_nodes([])["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term == {"matchExpressions": [{"key": NOWHERE_LABEL, "operator": "Exists"}]}


def test_claims_are_those_below_their_folder(roles: dict[str, Role]) -> None:
    master = roles["master"]
    assert isinstance(master.settings, MasterSettings)
    (origin,) = master.settings.origins
    found = [
        origin.model_copy(update={"origin": f"local:///claims/{each}"})
        for each in ("shelf/a", "shelf/b", "desk")
    ]
    moved = replace(master, settings=master.settings.model_copy(update={"origins": tuple(found)}))
    assert claims_of(moved) == ["desk", "shelf"]
    assert claims_of(master) == []
    volumes, mounts = volumes_of(moved, NAMES, WORLD)
    claims = [each["persistentVolumeClaim"] for each in volumes if "persistentVolumeClaim" in each]
    assert claims == [{"claimName": "desk", "readOnly": True}, {"claimName": "shelf", "readOnly": True}]
    assert {each["name"] for each in mounts} <= {each["name"] for each in volumes}


def test_a_runtime_s_words_for_pods_reach_them() -> None:
    text = SEED.replace(
        "  replicas: 4", "  replicas: 4\n  worker: {env: {A: b}, resources: {limits: {cpu: '2'}}}"
    )
    runtime = World.of(text).runtime
    wishes = wishes_of(runtime, Policy(environment=("A",)))[RoleKind.WORKER]
    assert wishes.environment == ({"name": "A", "value": "b"},)
    assert wishes.resources == {"limits": {"cpu": "2"}}


RUNS_AS = SEED.replace("  replicas: 4", "  replicas: 4\n  runAs: {uid: 1005, gid: 1006, user: u, group: g}")


def modes(spec: dict[str, Any]) -> set[int]:
    """Those of all files of Secrets in a pod."""
    parts = [each.get("secret") or each.get("projected") for each in spec["volumes"]]
    return {part["defaultMode"] for part in parts if part}


def test_another_user_can_read_its_secrets_and_no_stranger_can() -> None:
    roles = planned(RUNS_AS)
    for kind in (RoleKind.MASTER, RoleKind.WORKER):
        spec = workload(kind, roles, WORLD)["spec"]["template"]["spec"]
        assert spec["securityContext"]["fsGroup"] == 1006
        assert modes(spec) == {0o440}
        context = spec["containers"][0]["securityContext"]
        assert (context["runAsUser"], context["runAsGroup"]) == (1005, 1006)
        assert context["capabilities"] == {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}
    for spec in (
        each["spec"]["template"]["spec"]
        for each in [workload(RoleKind.MOUNT, roles, WORLD), *map(of_root, RoleKind)]
    ):
        assert modes(spec) == {0o400}
        assert "securityContext" not in spec


@pytest.mark.parametrize("kind", [RoleKind.MASTER, RoleKind.WORKER])
def test_a_dataset_is_read_by_the_node_s_own_keys_only_where_the_administrator_says_so(
    roles: dict[str, Role], kind: RoleKind
) -> None:
    name = f"HEADRACE_{kind.value.upper()}_MACHINE_CREDENTIALS"
    wished = {kind: PodWishes(environment=({"name": name, "value": "true"},))}

    def said(world: RenderContext) -> list[str]:
        container = workload(kind, roles, world)["spec"]["template"]["spec"]["containers"][0]
        return [each["value"] for each in container["env"] if each["name"] == name]

    assert said(WORLD) == said(replace(WORLD, wishes=wished)) == ["false"]
    allowed = replace(WORLD, settings=replace(SETTINGS, machine_credentials=True))
    assert said(allowed) == ["true"]
    assert allowed.version(kind) != WORLD.version(kind)


def of_root(kind: RoleKind) -> dict[str, Any]:
    return workload(kind, planned(), WORLD)


def test_folders_of_the_node_are_given_to_the_user_by_a_container_that_takes_its_words() -> None:
    spec = workload(RoleKind.WORKER, planned(RUNS_AS), WORLD)["spec"]["template"]["spec"]
    (before,) = spec["initContainers"]
    words = before["args"]
    assert words[0] in VERBS
    assert words[1:] == [
        *("--dataset=default/imagenet", "--uid=1005", "--gid=1006"),
        "--state=/var/lib/headrace/state/default/imagenet/worker-$(POD_INDEX)",
        "--cache=/host/var/lib/docker/jindo",
    ]
    hosts = {each["name"]: each["hostPath"]["path"] for each in spec["volumes"] if "hostPath" in each}
    assert hosts["cache-0"] == "/var/lib/docker/jindo"
    (cache,) = (each for each in spec["containers"][0]["volumeMounts"] if each["name"] == "cache-0")
    assert cache == {
        "name": "cache-0",
        "mountPath": "/var/lib/docker/jindo/default/imagenet",
        "subPath": "default/imagenet",
    }


def test_a_mount_goes_before_no_other_pod_unless_the_administrator_says_so(roles: dict[str, Role]) -> None:
    """It comes with whoever uses a dataset, and the class of the system ends the pods of others for want of room."""
    spec = workload(RoleKind.MOUNT, roles, WORLD)["spec"]["template"]["spec"]
    assert "priorityClassName" not in spec
    world = replace(WORLD, settings=replace(SETTINGS, policy=Policy(mount_priority_class="mounts")))
    spec = workload(RoleKind.MOUNT, roles, world)["spec"]["template"]["spec"]
    assert spec["priorityClassName"] == "mounts"


def test_nothing_that_tenants_write_tells_a_privileged_pod_where_to_mount(roles: dict[str, Role]) -> None:
    """Who may write ConfigMaps of the namespace could have it mount over its own programs."""
    template = workload(RoleKind.MOUNT, roles, WORLD)["spec"]["template"]
    (volume,) = (each for each in template["spec"]["volumes"] if each["name"] == "settings")
    (item,) = volume["downwardAPI"]["items"]
    assert not any("configMap" in each for each in template["spec"]["volumes"])
    (container,) = template["spec"]["containers"]
    assert container["args"][2].endswith(f"/{item['path']}")
    key = item["fieldRef"]["fieldPath"].partition("'")[2].partition("'")[0]
    said = json.loads(template["metadata"]["annotations"][key])
    assert said["mountpoint"] == "/var/lib/headrace/mounts/default/imagenet"
    assert template["metadata"]["annotations"][key] == settings_file(roles["mount-node-1"], NAMES, WORLD)


def test_no_config_map_gives_a_worker_a_larger_cache(roles: dict[str, Role], tmp_path: Path) -> None:
    spec = workload(RoleKind.WORKER, roles, WORLD)["spec"]["template"]["spec"]
    told = {each["name"]: each.get("value") for each in spec["containers"][0]["env"]}
    edited = settings_file(roles["worker-0"], NAMES, WORLD).replace(":SSD", "0:SSD")
    file = tmp_path / "worker.yaml"
    file.write_text(edited)
    given = {"HEADRACE_WORKER_ID": "worker-0", "HEADRACE_WORKER_NODE": "node-1"}
    cache = {"HEADRACE_WORKER_CACHE": told["HEADRACE_WORKER_CACHE"]}
    read, _ = role_settings(WorkerSettings, file, Environment(given | cache))
    assert list(read.cache) == [folder.word() for folder in roles["worker-0"].cache]
    lured, _ = role_settings(WorkerSettings, file, Environment(given))
    assert list(lured.cache) != list(read.cache)


def test_kubelet_mounts_the_administrator_s_folder_and_follows_no_link_below_it() -> None:
    spec = of_root(RoleKind.WORKER)["spec"]["template"]["spec"]
    (before,) = spec["initContainers"]
    assert {"--uid=0", "--gid=0", "--cache=/host/var/lib/docker/jindo"} <= set(before["args"])
    # In a namespace with a quota a container that asks for nothing is refused, and with it the pod.
    assert set(before["resources"]["requests"]) == {"cpu", "memory"}
    (volume,) = (each for each in spec["volumes"] if each["name"] == "cache-0")
    assert volume["hostPath"]["path"] == "/var/lib/docker/jindo"
    (cache,) = (each for each in spec["containers"][0]["volumeMounts"] if each["name"] == "cache-0")
    assert cache["subPath"] == "default/imagenet"


def test_a_folder_of_the_node_is_read_from_the_folder_that_was_opened_whole() -> None:
    """Of a link in it kubelet would mount what it leads to."""
    master = planned()["master"]
    assert isinstance(master.settings, MasterSettings)
    (origin,) = master.settings.origins
    found = tuple(
        origin.model_copy(update={"path": name, "origin": address})
        for name, address in {"a": "local:///mnt/a/x", "b": "file:///mnt/b", "c": "local:///claims/c"}.items()
    )
    role = replace(master, settings=master.settings.model_copy(update={"origins": found}))
    world = replace(WORLD, settings=replace(SETTINGS, local_folders=("/mnt", "/mnt/a")))
    volumes, mounts = volumes_of(role, NAMES, world)
    hosts = {each["name"]: each["hostPath"] for each in volumes if each["name"].startswith("folder-")}
    places = {each["mountPath"]: each for each in mounts if each["name"] in hosts}
    assert {hosts[each["name"]]["path"]: place for place, each in places.items()} == {
        "/mnt": "/nodes/mnt",
        "/mnt/a": "/nodes/mnt/a",
    }
    assert all(each["type"] == "Directory" for each in hosts.values())
    assert all(each["readOnly"] for each in places.values())
    addresses = [each["origin"] for each in json.loads(settings_file(role, NAMES, world))["origins"]]
    assert addresses == ["local:///nodes/mnt/a/x", "local:///nodes/mnt/b", "local:///claims/c"]


def test_what_is_named_twice_is_said_once() -> None:
    """The API server refuses lists whose entries have the same name."""
    text = SEED.replace(
        "  replicas: 4",
        "  replicas: 4\n  imagePullSecrets: [{name: a}, {name: b}]\n"
        "  worker: {imagePullSecrets: [{name: b}, {name: a}], env: {NODE_NAME: mine, A: b}}",
    )
    world = World.of(text)
    roles = {role.id: role for role in world.settle().roles}
    settings = replace(SETTINGS, engine=replace(SETTINGS.engine, pull_secrets=("a", "chart")))
    policy = Policy(environment=("A", "NODE_NAME"))
    made = workload(
        RoleKind.WORKER, roles, replace(WORLD, settings=settings, wishes=wishes_of(world.runtime, policy))
    )
    spec = made["spec"]["template"]["spec"]
    assert spec["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}, {"name": "chart"}]
    told = {each["name"]: each.get("value") for each in spec["containers"][0]["env"]}
    assert len(told) == len(spec["containers"][0]["env"])
    assert (told["A"], told["NODE_NAME"]) == ("b", None), "what the role needs stays"
