"""The chart: rendered by the real helm with its defaults and with everything on."""

import json
import re
import tomllib

import pytest
import typer.main
import yaml
from charts import CHART, EVERY_OPTION, ROOT, named, refusal, render, run_helm, template

from headrace.api.kinds import KINDS
from headrace.cli.application import application
from headrace.kubeflow.keeper_probe import LEASE
from headrace.operator.operator_process import KEY_SECRET
from headrace.operator.rendering.role_pods import GRACE_S
from headrace.plan.policy import Policy, policy_of
from headrace.plan.roles import RoleKind
from headrace.plan.volume import DRIVER
from headrace.roles.keeper.succession import LEAVE_S
from headrace.settings.environment import HEADRACE_VARIABLES
from headrace.settings.reading import settable_by_variable, variable_of
from headrace.settings.roles import ROLES
from headrace.settings.sizes import Quota
from headrace.webhook.certificate_keeper import SECRET

pytestmark = [
    pytest.mark.slow,  # the first run on a machine builds helm
    pytest.mark.timeout(1200),
]

WORKLOADS = ("Deployment", "DaemonSet", "StatefulSet")


@pytest.fixture(scope="module", params=[{}, EVERY_OPTION], ids=["defaults", "everything"])
def objects(request: pytest.FixtureRequest) -> list[dict]:
    return render(request.param)


@pytest.fixture(scope="module")
def everything() -> list[dict]:
    return render(EVERY_OPTION)


def test_helm_finds_nothing_to_say_about_the_chart() -> None:
    for values in ({}, EVERY_OPTION):
        done = run_helm("lint", "--strict", str(CHART), values=values)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_is_of_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == version


def test_no_two_objects_have_one_name(objects: list[dict]) -> None:
    names = [(each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(names) == len(set(names))


def test_objects_of_namespaces_stand_in_the_releases(objects: list[dict]) -> None:
    of_cluster = {
        "ClusterRole",
        "ClusterRoleBinding",
        "CSIDriver",
        "CustomResourceDefinition",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    }
    for each in objects:
        expected = None if each["kind"] in of_cluster else "headrace-system"
        assert each["metadata"].get("namespace") == expected, each["metadata"]["name"]


def test_selectors_find_the_pods_of_their_own_workload_alone(objects: list[dict]) -> None:
    workloads = [each for each in objects if each["kind"] in WORKLOADS]
    for one in workloads:
        selector = one["spec"]["selector"]["matchLabels"]
        found = [
            each["metadata"]["name"]
            for each in workloads
            if selector.items() <= each["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert found == [one["metadata"]["name"]]


def test_every_container_says_what_it_needs_and_when_it_is_ready(objects: list[dict]) -> None:
    for each in objects:
        if each["kind"] in WORKLOADS:
            for container in each["spec"]["template"]["spec"]["containers"]:
                assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
                assert container["readinessProbe"]
                assert not container["image"].endswith(":latest")


def test_mounts_of_containers_are_volumes_of_their_pods(objects: list[dict]) -> None:
    for each in objects:
        if each["kind"] not in WORKLOADS:
            continue
        pod = each["spec"]["template"]["spec"]
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        volumes |= {claim["metadata"]["name"] for claim in each["spec"].get("volumeClaimTemplates", [])}
        for container in pod["containers"]:
            paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
            assert {mount["name"] for mount in container.get("volumeMounts", [])} == volumes
            assert len(paths) == len(set(paths))


def test_only_what_mounts_is_privileged(everything: list[dict]) -> None:
    privileged = {
        each["metadata"]["name"]
        for each in everything
        if each["kind"] in WORKLOADS
        for container in each["spec"]["template"]["spec"]["containers"]
        if container["securityContext"].get("privileged")
    }
    assert privileged == {"headrace-csi", "headrace-jindofs-mount"}


def test_nobody_may_do_everything_and_nobody_runs_things_in_pods(objects: list[dict]) -> None:
    for role in (each for each in objects if each["kind"] in ("Role", "ClusterRole")):
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert "pods/exec" not in rule["resources"]
            assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(rule["verbs"])


def test_the_driver_has_no_right_and_no_token(objects: list[dict]) -> None:
    driver = named(objects, "DaemonSet", "headrace-csi")["spec"]["template"]["spec"]
    assert driver["automountServiceAccountToken"] is False
    bound = [
        subject["name"]
        for each in objects
        if each["kind"].endswith("RoleBinding")
        for subject in each["subjects"]
    ]
    assert driver["serviceAccountName"] not in bound


def test_the_webhook_writes_to_nothing_but_what_is_its_own(objects: list[dict]) -> None:
    for kind in ("ClusterRole", "Role"):
        for rule in named(objects, kind, "headrace-webhook")["rules"]:
            assert set(rule["verbs"]) <= {"get", "list", "watch"} or rule.get("resourceNames")


def test_what_processes_fill_comes_with_the_chart_and_empty_so_that_it_goes_with_it(
    objects: list[dict],
) -> None:
    """Helm leaves alone what it does not mention, and takes away what it brought."""
    of_chart = (("Secret", SECRET), ("Secret", KEY_SECRET), ("Lease", "headrace-operator"), ("Lease", LEASE))
    for kind, name in of_chart:
        found = named(objects, kind, name)
        assert not {"data", "stringData", "spec"} & found.keys()


def test_the_operator_may_act_on_every_kind_that_people_declare(objects: list[dict]) -> None:
    rules = named(objects, "ClusterRole", "headrace-operator")["rules"]
    allowed = {
        (resource, verb)
        for rule in rules
        if rule["apiGroups"] == ["data.fluid.io"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    kinds = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    assert len(kinds) == 7
    for plural in (each["spec"]["names"]["plural"] for each in kinds):
        assert {(plural, verb) for verb in ("list", "watch", "patch")} <= allowed
        assert (f"{plural}/status", "patch") in allowed


def test_processes_are_given_words_that_their_commands_know(everything: list[dict]) -> None:
    for each in everything:
        if each["kind"] not in WORKLOADS:
            continue
        for container in each["spec"]["template"]["spec"]["containers"]:
            verb, *words = container["args"]
            command = typer.main.get_command(application([verb])).commands[verb]
            known = {option for parameter in command.params for option in parameter.opts}
            assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known


def test_variables_of_roles_are_ones_that_they_read(everything: list[dict]) -> None:
    known = {
        variable_of(role, field) for role, model in ROLES.items() for field in settable_by_variable(model)
    }
    known |= HEADRACE_VARIABLES.keys()
    given = {
        variable["name"]
        for each in everything
        if each["kind"] in WORKLOADS
        for container in each["spec"]["template"]["spec"]["containers"]
        for variable in container.get("env", [])
        if variable["name"].startswith("HEADRACE_")
    }
    assert len(given) > 10
    assert given <= known


def test_the_webhook_is_never_in_the_way(objects: list[dict]) -> None:
    (webhook,) = named(objects, "MutatingWebhookConfiguration", "headrace-webhook")["webhooks"]
    assert webhook["failurePolicy"] == "Ignore"
    assert webhook["timeoutSeconds"] <= 5
    assert "caBundle" not in webhook["clientConfig"]  # else an upgrade would take the webhook's own away
    assert "path" not in webhook["clientConfig"]["service"], "which only the webhook and API servers know"
    excluded = webhook["namespaceSelector"]["matchExpressions"][0]
    assert excluded["operator"] == "NotIn"
    assert {"kube-system", "headrace-system"} <= set(excluded["values"])


def test_nobody_waits_for_a_judgement_on_what_he_declares(objects: list[dict]) -> None:
    (webhook,) = named(objects, "ValidatingWebhookConfiguration", "headrace-webhook")["webhooks"]
    assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Ignore", "None")
    assert not {"caBundle", "path"} & {*webhook["clientConfig"], *webhook["clientConfig"]["service"]}
    (rule,) = webhook["rules"]
    own = [each for each in KINDS.values() if not each.is_core]
    assert set(rule["resources"]) == {each.plural for each in own}
    assert {f"{group}/{rule['apiVersions'][0]}" for group in rule["apiGroups"]} == {
        each.api_version for each in own
    }


def test_the_webhook_judges_by_the_policy_of_the_operator() -> None:
    objects = render({"policy": {"podMetadata": ["example.com"]}})
    given = {
        name: [word for word in container["args"] if word.startswith("--policy=")]
        for name in ("headrace-operator", "headrace-webhook")
        for container in named(objects, "Deployment", name)["spec"]["template"]["spec"]["containers"]
    }
    assert given["headrace-webhook"] == given["headrace-operator"]
    assert "example.com" in given["headrace-webhook"][0]


def test_the_driver_is_called_as_volumes_name_it(objects: list[dict]) -> None:
    driver = named(objects, "CSIDriver", DRIVER)["spec"]
    assert driver["attachRequired"] is False
    assert driver["podInfoOnMount"] is True
    words = named(objects, "DaemonSet", "headrace-csi")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert f"--endpoint=unix:///var/lib/kubelet/plugins/{DRIVER}/csi.sock" in words


def test_kinds_are_those_of_the_api_and_stay_when_the_chart_goes() -> None:
    rendered = {each["metadata"]["name"]: each for each in render() if each["kind"].startswith("Custom")}
    for file in (ROOT / "deploy" / "crds").glob("*.yaml"):
        kind = yaml.load(file.read_text(), yaml.CSafeLoader)
        found = rendered.pop(kind["metadata"]["name"])
        assert found["spec"] == kind["spec"]
        assert found["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert not rendered


def test_kinds_may_go_with_the_chart_or_come_from_elsewhere() -> None:
    going = [each for each in render({"crds": {"keep": False}}) if each["kind"].startswith("Custom")]
    assert going and not any("annotations" in each["metadata"] for each in going)
    none = render({"crds": {"install": False}})
    assert not [each for each in none if each["kind"].startswith("Custom")]


def test_without_the_webhook_nothing_of_it_is_there() -> None:
    assert "headrace-webhook" not in template({"webhook": {"enabled": False}})


def test_without_the_keeper_of_jobs_nothing_of_it_is_there() -> None:
    assert "headrace-jobs" not in template({"jobs": {"enabled": False}})


def test_the_keeper_of_jobs_makes_nothing_but_notes(objects: list[dict]) -> None:
    rules = named(objects, "ClusterRole", "headrace-jobs")["rules"]
    made = {resource for rule in rules if "create" in rule["verbs"] for resource in rule["resources"]}
    read = {resource for rule in rules for resource in rule["resources"]}
    assert made == {"configmaps"}
    assert "secrets" not in read


def test_folders_of_the_node_are_those_that_were_named() -> None:
    policy = {"cacheFolders": ["/data/caches"], "backupFolders": ["/data/backups"]}
    objects = render({"nodeFolder": "/data/headrace", "kubeletFolder": "/data/kubelet", "policy": policy})
    driver = named(objects, "DaemonSet", "headrace-csi")
    text = json.dumps(driver) + json.dumps(named(objects, "Deployment", "headrace-operator"))
    assert "/var/lib" not in text
    paths = {volume["hostPath"]["path"] for volume in driver["spec"]["template"]["spec"]["volumes"]}
    assert {"/data/headrace", "/data/kubelet/pods", "/data/kubelet/plugins_registry"} <= paths


def test_datasets_read_no_folder_of_the_nodes_unless_it_is_named() -> None:
    def words(values: dict) -> list[str]:
        operator = named(render(values), "Deployment", "headrace-operator")
        return [
            word for word in operator["spec"]["template"]["spec"]["containers"][0]["args"] if "local" in word
        ]

    assert words({}) == []
    assert words({"localFolders": ["/mnt", "/data/sets"]}) == [
        "--local-folder=/mnt",
        "--local-folder=/data/sets",
    ]


def policy_in(values: dict) -> Policy:
    operator = named(render(values), "Deployment", "headrace-operator")
    (word,) = (
        each
        for each in operator["spec"]["template"]["spec"]["containers"][0]["args"]
        if each.startswith("--policy=")
    )
    return policy_of(word.removeprefix("--policy="))


def test_the_policy_reaches_the_operator_and_is_the_safe_one_unless_somebody_says_otherwise() -> None:
    assert policy_in({}) == Policy()
    # As `--reuse-values` leaves it after an upgrade from a chart without it.
    assert policy_in({"policy": None}) == Policy()
    given = {"environment": ["A"], "largestPods": {"mount": {"cpu": 2}}, "cachePerNode": {"SSD": "1Ti"}}
    policy = policy_in({"policy": given})
    assert policy.environment == ("A",)
    assert policy.largest_pods.mount == {**Policy().largest_pods.mount, "cpu": 2}
    assert policy.volumes == Policy().volumes
    assert (policy.cache_per_node.mem, policy.cache_per_node.ssd) == (Quota(share=0.5), Quota(1 << 40))
    # As large as values come from YAML.
    assert policy_in({"policy": {"cachePerNode": {"SSD": 1 << 40}}}).cache_per_node.ssd == Quota(1 << 40)


def test_datasets_are_not_read_by_the_nodes_own_keys_unless_it_is_said() -> None:
    def words(values: dict) -> list[str]:
        operator = named(render(values), "Deployment", "headrace-operator")
        return operator["spec"]["template"]["spec"]["containers"][0]["args"]

    assert "--machine-credentials" not in words({})
    assert "--machine-credentials" in words({"machineCredentials": True})


def test_a_mount_has_longer_to_end_than_the_driver_for_which_it_waits(everything: list[dict]) -> None:
    """An uninstallation ends both at once, and a mount that is killed while it waits is left dead on the node."""
    given = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        for each in everything
        if each["kind"] == "DaemonSet"
    }
    least_s = given["headrace-csi"] + LEAVE_S + 10
    assert given["headrace-jindofs-mount"] >= least_s
    assert GRACE_S[RoleKind.MOUNT] >= least_s


def test_the_dashboard_asks_for_metrics_that_there_are(everything: list[dict]) -> None:
    text = named(everything, "ConfigMap", "headrace-dashboard")["data"]["headrace.json"]
    dashboard = json.loads(text)
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"\bheadrace_(?!io_)[a-z_]+", target["expr"])
    }
    known = set(re.findall(r"^\| `(headrace_\w+)`", (ROOT / "docs/reference/metrics.md").read_text(), re.M))
    assert len(asked) > 10
    assert {name.removesuffix("_bucket") for name in asked} <= known


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"webhooks": {}}, "webhooks"),
        ({"operator": {"replicas": 0}}, "replicas"),
        ({"operator": {"replica": 1}}, "replica"),
        ({"image": {"engine": {"tag": "latest"}}}, "tag"),
        ({"image": {"engine": {"pullPolicy": "Sometimes"}}}, "pullPolicy"),
        ({"nodeFolder": "relative"}, "nodeFolder"),
        ({"nodeFolder": "/ends/"}, "nodeFolder"),
        ({"localFolders": ["/"]}, "localFolders"),
        ({"localFolders": ["/mnt/../etc"]}, "localFolders"),
        ({"policy": {"enviroment": []}}, "enviroment"),
        ({"policy": {"environment": ["A B"]}}, "environment"),
        ({"policy": {"cacheFolders": ["/"]}}, "cacheFolders"),
        ({"policy": {"backupFolders": ["/a/../b"]}}, "backupFolders"),
        ({"policy": {"volumePaths": ["/mnt/.."]}}, "volumePaths"),
        ({"policy": {"podMetadata": ["example.com/"]}}, "podMetadata"),
        ({"policy": {"tolerations": ["a b"]}}, "tolerations"),
        ({"policy": {"largestPods": {"fuse": {}}}}, "fuse"),
        ({"policy": {"cachePerNode": {"SSD": "50%"}}}, "SSD"),
        ({"policy": {"cachePerNode": {"TAPE": "1Gi"}}}, "TAPE"),
        ({"policy": {"exclusivePlacement": "Node"}}, "exclusivePlacement"),
        ({"webhook": {"timeoutSeconds": 60}}, "timeoutSeconds"),
        ({"jobs": {"enabled": "yes"}}, "enabled"),
        ({"jobs": {"keeper": {}}}, "keeper"),
        ({"log": {"level": "loud"}}, "level"),
        ({"jindofs": {"namespaces": {"test": {}}}}, "uri"),
        ({"jindofs": {"namespaces": {"../up": {"uri": "oss://bucket/"}}}}, "../up"),
        ({"jindofs": {"namespaces": {"test": {"uri": "oss://id:key@bucket/"}}}}, "uri"),
        (
            {
                "jindofs": {
                    "namespaces": {"test": {"uri": "oss://b/", "options": {"fs.oss.accessKeySecret": "x"}}}
                }
            },
            "fs.oss.accessKeySecret",
        ),
        ({"jindofs": {"namespaces": {"a": {"uri": "oss://b/"}}, "properties": "x"}}, "properties"),
        ({"jindofs": {"worker": {"cache": []}}}, "cache"),
        ({"jindofs": {"worker": {"cache": [{"path": "/c", "quota": "1Gi", "medium": "TAPE"}]}}}, "medium"),
        ({"jindofs": {"mountFolder": "/jfs"}}, "mountFolder"),
        ({"jindofs": {"worker": {"memory": "lots"}}}, "memory"),
        ({"operator": {"resources": {"requests": {"cpu": "2 cores"}}}}, "cpu"),
        ({"operator": {"resources": {"limits": {"memory": "1GB"}}}}, "memory"),
        ({"csi": {"resources": {"request": {"memory": "1Gi"}}}}, "request"),
        ({"csi": {"tolerations": [{"key": "a", "operator": "Equals"}]}}, "operator"),
        ({"csi": {"tolerations": [{"key": "a", "effekt": "NoSchedule"}]}}, "effekt"),
        ({"csi": {"tolerations": {"operator": "Exists"}}}, "tolerations"),
        ({"csi": {"nodeSelector": {"pool": True}}}, "nodeSelector"),
        ({"csi": {"nodeSelector": {"not a label": "x"}}}, "nodeSelector"),
        ({"csi": {"priorityClassName": "System Critical"}}, "priorityClassName"),
        ({"operator": {"affinity": {"nodeAfinity": {}}}}, "nodeAfinity"),
        ({"image": {"pullSecrets": [{"name": "keys"}]}}, "pullSecrets"),
        ({"image": {"pullSecrets": "keys"}}, "pullSecrets"),
        ({"image": {"engine": {"repository": "registry.example.com/headrace/engine:1.0"}}}, "repository"),
        ({"image": {"engine": {"repository": "https://registry.example.com/engine"}}}, "repository"),
        ({"image": {"engine": {"repository": "headrace//engine"}}}, "repository"),
        ({"image": {"engine": {"repository": "a b; rm -rf /"}}}, "repository"),
        ({"image": {"engine": {"tag": 1.1}}}, "tag"),
        ({"kubeletFolder": "/var/lib/../etc"}, "kubeletFolder"),
        ({"webhook": {"excludedNamespaces": ["Team A"]}}, "excludedNamespaces"),
        ({"podDisruptionBudget": {"maxUnavailable": 0}}, "maxUnavailable"),
        ({"monitoring": {"monitors": {"interval": "soon"}}}, "interval"),
    ],
)
def test_values_that_make_no_sense_are_refused_by_their_name(values: dict, place: str) -> None:
    assert place in refusal(values)


@pytest.mark.parametrize(
    "values",
    [
        {"image": {"engine": {"repository": "registry.example.com:5000/team_a/headrace-engine"}}},
        {"image": {"engine": {"repository": "engine", "tag": "@sha256:" + "0" * 64}}},
        {"operator": {"resources": {"requests": {"cpu": 2, "memory": "1e9"}, "limits": {"cpu": "1.5"}}}},
        {"operator": {"resources": {"limits": {"example.com/device": "1", "memory": "512M"}}}},
        {"csi": {"tolerations": [{"key": "gpu", "effect": "NoExecute", "tolerationSeconds": 60}]}},
        {"csi": {"nodeSelector": {"kubernetes.io/os": "linux", "pool": ""}, "priorityClassName": ""}},
        {"global": {"anything": {"of": "a parent chart"}}},
    ],
)
def test_values_that_make_sense_are_taken(values: dict) -> None:
    assert refusal(values) == ""


def test_every_pod_can_pull_its_image_and_the_operator_tells_it_to_those_that_it_makes(
    everything: list[dict],
) -> None:
    for each in everything:
        if each["kind"] in WORKLOADS:
            assert each["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "registry-keys"}]
    operator = named(everything, "Deployment", "headrace-operator")["spec"]["template"]["spec"]
    assert "--engine-pull-secret=registry-keys" in operator["containers"][0]["args"]


def test_wishes_for_places_reach_the_pods(everything: list[dict]) -> None:
    pod = named(everything, "Deployment", "headrace-operator")["spec"]["template"]["spec"]
    for key, value in EVERY_OPTION["operator"].items():
        if key != "podAnnotations":
            assert pod[key] == value, key
    driver = named(everything, "DaemonSet", "headrace-csi")["spec"]["template"]["spec"]
    assert driver["tolerations"] == [{"operator": "Exists"}]
    assert driver["priorityClassName"] == "system-node-critical"


@pytest.mark.parametrize("component", ["operator", "webhook", "jobs"])
def test_variables_of_opentelemetry_reach_the_control_plane_with_the_names_of_its_pods(
    everything: list[dict], component: str
) -> None:
    pod = named(everything, "Deployment", f"headrace-{component}")["spec"]["template"]["spec"]
    variables = {each["name"]: each for each in pod["containers"][0]["env"]}
    endpoint = EVERY_OPTION["openTelemetry"]["OTEL_EXPORTER_OTLP_ENDPOINT"]
    assert variables["OTEL_EXPORTER_OTLP_ENDPOINT"]["value"] == endpoint
    assert {"POD_NAME", "POD_NAMESPACE"} <= set(variables)


def test_the_driver_which_goes_nowhere_is_not_told_of_a_collector(everything: list[dict]) -> None:
    pod = named(everything, "DaemonSet", "headrace-csi")["spec"]["template"]["spec"]
    assert not [each for each in pod["containers"][0]["env"] if each["name"].startswith("OTEL_")]


def test_only_variables_of_opentelemetry_are_taken() -> None:
    assert "LD_PRELOAD" in refusal({"openTelemetry": {"LD_PRELOAD": "/x"}})


def test_an_image_may_be_named_by_its_digest_alone() -> None:
    digest = "@sha256:" + "0" * 64
    objects = render({"image": {"engine": {"repository": "engine", "tag": digest}}})
    (container,) = named(objects, "DaemonSet", "headrace-csi")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"engine{digest}"


def test_in_another_namespace_nothing_is_left_of_the_usual_one() -> None:
    words = ("template", "data", str(CHART), "--namespace", "storage")
    done = run_helm(*words, values=EVERY_OPTION)
    assert done.returncode == 0, done.stderr
    assert "headrace-system" not in done.stdout
    assert "--service=headrace-webhook.storage" in done.stdout
    assert "http://headrace-jindofs-master.storage.svc:8700" in done.stdout


def test_every_value_has_its_place_in_the_schema_and_a_comment() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert _keys_of(values) <= _keys_of_schema(schema, schema)
    lines = (CHART / "values.yaml").read_text().splitlines()
    for number, line in enumerate(lines):
        if re.match(r"[a-z]\w*:", line):
            assert lines[number - 1].startswith("#") or "#" in line or not line.endswith("}"), line


def _keys_of(values: dict, path: str = "") -> set[str]:
    found = set()
    for key, value in values.items():
        found.add(f"{path}.{key}")
        if isinstance(value, dict) and key not in ("resources", "labels", "largestPods", "cachePerNode"):
            found |= _keys_of(value, f"{path}.{key}")
    return found


def _keys_of_schema(part: dict, schema: dict, path: str = "") -> set[str]:
    if "$ref" in part:
        part = schema["$defs"][part["$ref"].rpartition("/")[2]]
    found = set()
    for key, value in part.get("properties", {}).items():
        found |= {f"{path}.{key}"} | _keys_of_schema(value, schema, f"{path}.{key}")
    return found
