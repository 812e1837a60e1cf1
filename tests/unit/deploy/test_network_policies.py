"""Who may reach what of the release's namespace: every port that a process listens on, and no other."""

import re

import pytest
from charts import EVERY_OPTION, render
from operator_context import SETTINGS

from headrace.operator.rendering.naming import Names
from headrace.operator.rendering.sweeper_pods import sweeper

pytestmark = [
    pytest.mark.slow,  # the first run on a machine builds helm
    pytest.mark.timeout(1200),
]

WORKLOADS = ("Deployment", "DaemonSet", "StatefulSet")


@pytest.fixture(scope="module")
def everything() -> list[dict]:
    return render(EVERY_OPTION)


def _templates(objects: list[dict]) -> dict[str, dict]:
    """Pods by component."""
    found = [each["spec"]["template"] for each in objects if each["kind"] in WORKLOADS]
    return {each["metadata"]["labels"]["app.kubernetes.io/component"]: each for each in found}


def _container(template: dict) -> dict:
    (container,) = template["spec"]["containers"]
    return container


def _declared(template: dict) -> set[int]:
    return {port["containerPort"] for port in _container(template).get("ports", [])}


def _listened(template: dict) -> set[int]:
    """The ports that its words and its variables make it listen on, beside the fixed ones of masters and workers."""
    container = _container(template)
    words = [word.partition("=") for word in container["args"]]
    words += [(each["name"], "=", each.get("value", "")) for each in container.get("env", [])]
    told = re.compile(r"--(listen|metrics-address|health-port)|HEADRACE_\w+_METRICS_ADDRESS")
    ports = {int(value.rpartition(":")[2]) for name, _, value in words if told.fullmatch(name)}
    fixed = {"master": 8700, "worker": 8701}
    return ports | ({fixed[container["args"][0]]} if container["args"][0] in fixed else set())


def _selects(selector: dict, labels: dict[str, str]) -> bool:
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", [])
    )


def _let_in(objects: list[dict], template: dict) -> set[int]:
    policies = [
        each["spec"]
        for each in objects
        if each["kind"] == "NetworkPolicy"
        and _selects(each["spec"]["podSelector"], template["metadata"]["labels"])
    ]
    assert policies, "every pod of the release has one"
    rules = [rule for policy in policies for rule in policy.get("ingress", [])]
    return {port["port"] for rule in rules for port in rule["ports"]}


def test_pods_say_each_port_that_they_listen_on(everything: list[dict]) -> None:
    templates = _templates(everything)
    assert len(templates) == 7
    for component, template in templates.items():
        assert _declared(template) == _listened(template), component


def test_each_port_may_be_reached_and_no_other(everything: list[dict]) -> None:
    reached: dict[str, set[int]] = {"master": {8700}, "worker": {8701}}
    for component, template in _templates(everything).items():
        needed = _declared(template)
        role = component.rpartition("-")[2]
        let_in = _let_in(everything, template)
        # The three roles of the JindoFS way share one policy.
        allowed = {8700, 8701, 9700} if component.startswith("jindofs-") else needed
        assert needed | reached.get(role, set()) <= let_in <= allowed, component


def test_monitors_ask_ports_that_pods_have_and_policies_let_in(everything: list[dict]) -> None:
    templates = _templates(everything)
    monitors = [each["spec"] for each in everything if each["kind"] in ("ServiceMonitor", "PodMonitor")]
    assert len(monitors) == 2
    asked = set()
    for spec in monitors:
        for component, template in templates.items():
            if _selects(spec["selector"], template["metadata"]["labels"]):
                for endpoint in spec.get("podMetricsEndpoints", []) + spec.get("endpoints", []):
                    ports = {each["name"]: each["containerPort"] for each in _container(template)["ports"]}
                    port = endpoint.get("targetPort") or ports[endpoint["port"]]
                    assert port in _let_in(everything, template)
                    asked.add(component)
    assert asked == set(templates)


def test_pods_that_sweep_nodes_speak_to_nobody(everything: list[dict]) -> None:
    pod = sweeper(Names("ml", "imagenet"), "node-1", [], SETTINGS)
    selected = [
        each["spec"]
        for each in everything
        if each["kind"] == "NetworkPolicy"
        and _selects(each["spec"]["podSelector"], pod["metadata"]["labels"])
    ]
    assert [each.keys() & {"ingress", "egress"} for each in selected] == [set()]
    assert selected[0]["policyTypes"] == ["Ingress", "Egress"]


def test_without_network_policies_there_are_none() -> None:
    kinds = [each["kind"] for each in render(EVERY_OPTION | {"networkPolicy": {"enabled": False}})]
    assert "NetworkPolicy" not in kinds
