"""What a DataProcess asks for, as this machine can run it."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.api.dataprocess import DataProcess, JobProcessor, ScriptProcessor
from headrace.api.scheduling import Toleration
from headrace.errors import UnsupportedError
from headrace.local.operations.containers import (
    RETRIES,
    Container,
    Mounted,
    Variable,
    ignored_here,
    pod_of,
)

POD = "spec.processor.job.podSpec"


def script(**fields: Any) -> ScriptProcessor:
    return ScriptProcessor.model_validate({"source": "true", **fields})


def pod(**spec: Any) -> JobProcessor:
    return JobProcessor.model_validate({"podSpec": spec})


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "c", "command": ["true"], **fields}


def process(processor: dict[str, Any]) -> DataProcess:
    spec = {"dataset": {"name": "d", "mountPath": "/data"}, "processor": processor}
    return DataProcess.model_validate({"metadata": {"name": "p"}, "spec": spec})


def test_a_script_is_run_by_its_command_or_a_shell() -> None:
    (plain,) = pod_of(script()).containers
    assert (plain.command, plain.script) == (("/bin/sh",), "true")
    (chosen,) = pod_of(script(command=["python3", "-u"])).containers
    assert chosen.command == ("python3", "-u")


def test_tries_follow_the_restart_policy() -> None:
    assert pod_of(script()).restarts == 0
    assert pod_of(script(restartPolicy="OnFailure")).restarts == RETRIES
    assert pod_of(pod(restartPolicy="OnFailure", containers=[container()])).restarts == RETRIES
    assert pod_of(pod(restartPolicy="Never", containers=[container()])).restarts == 0


def test_variables_are_values_keys_of_secrets_and_facts() -> None:
    env = [
        {"name": "A", "value": "1"},
        {"name": "E"},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k", "optional": True}}},
        {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    expected = (
        Variable("A", "1"),
        Variable("E", ""),
        Variable("S", secret="keys", key="k", optional=True),
        Variable("N", fact="spec.nodeName"),
    )
    assert pod_of(script(env=env)).containers[0].variables == expected
    shared = [{"prefix": "P_", "secretRef": {"name": "keys"}}]
    (made,) = pod_of(pod(containers=[container(env=env, envFrom=shared)])).containers
    assert made.variables == (Variable("", "P_", secret="keys"), *expected)


def test_a_pod_has_its_order_its_users_and_its_node() -> None:
    made = pod_of(
        pod(
            nodeName="node-1",
            nodeSelector={"disk": "ssd"},
            tolerations=[{"operator": "Exists"}],
            securityContext={"runAsUser": 5, "runAsGroup": 6},
            initContainers=[container(name="first")],
            containers=[
                container(args=["a", 1], workingDir="/tmp", securityContext={"runAsUser": 7}),
                container(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "s", "readOnly": True}]),
            ],
            volumes=[{"name": "v", "emptyDir": {}}, {"name": "unused", "nfs": {"server": "s", "path": "/"}}],
        )
    )
    assert made.before == (Container("first", ("true",), user=5, group=6),)
    assert made.containers == (
        Container("c", ("true", "a", "1"), folder="/tmp", user=7, group=6),
        Container("c", ("true",), mounts=(Mounted("v", "/v", "s", True),), user=5, group=6),
    )
    assert made.tolerations == (Toleration(operator="Exists"),)
    assert (made.volumes, made.node, made.labels) == ({"v": {"emptyDir": {}}}, "node-1", {"disk": "ssd"})


VOLUME = [{"name": "v", "mountPath": "/v"}]


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ({"containers": [container()], "tolerations": [{"operator": "x"}]}, f"{POD}.tolerations[0]"),
        ({}, f"{POD}.containers is empty"),
        ({"containers": [{"name": "c", "image": "i"}]}, f"{POD}.containers[0].command"),
        ({"initContainers": [container(restartPolicy="Always")]}, f"{POD}.initContainers[0].restartPolicy"),
        (
            {"containers": [container(env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c"}}}])]},
            f"{POD}.containers[0].env[0].valueFrom.configMapKeyRef",
        ),
        (
            {
                "containers": [
                    container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}])
                ]
            },
            f"{POD}.containers[0].env[0].valueFrom.fieldRef",
        ),
        (
            {"containers": [container(envFrom=[{"configMapRef": {"name": "c"}}])]},
            f"{POD}.containers[0].envFrom[0]",
        ),
        ({"containers": [container(volumeMounts=VOLUME)]}, f"{POD}.volumes has no volume v"),
        (
            {"containers": [container(volumeMounts=VOLUME)], "volumes": [{"name": "v", "configMap": {}}]},
            f"{POD}.volumes[0] is no volume",
        ),
        (
            {"containers": [container(volumeMounts=[{"name": "v", "mountPath": "/"}])]},
            f"{POD}.containers[0].volumeMounts[0].mountPath",
        ),
        (
            {"containers": [container(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "../x"}])]},
            f"{POD}.containers[0].volumeMounts[0].subPath",
        ),
        (
            {"containers": [container(securityContext={"runAsUser": -1})]},
            f"{POD}.containers[0].securityContext.runAsUser",
        ),
    ],
)
def test_what_would_run_otherwise_here_is_refused_by_its_field(spec: dict[str, Any], place: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        pod_of(pod(**spec))
    assert place in caught.value.message


def test_what_has_no_effect_here_is_named() -> None:
    made = process(
        {
            "script": {"source": "x", "image": "i", "resources": {"limits": {"cpu": 1}}},
            "serviceAccountName": "a",
        }
    )
    assert [each.path for each in ignored_here(made)] == [
        "spec.processor.serviceAccountName",
        "spec.processor.script.image",
        "spec.processor.script.resources",
    ]
    spec = {
        "hostNetwork": True,
        "containers": [container(image="i", tty=True, securityContext={"privileged": True, "runAsUser": 1})],
    }
    assert [each.path for each in ignored_here(process({"job": {"podSpec": spec}}))] == [
        f"{POD}.hostNetwork",
        f"{POD}.containers[0].image",
        f"{POD}.containers[0].tty",
        f"{POD}.containers[0].securityContext.privileged",
    ]
    assert ignored_here(process({"script": {"source": "x"}})) == ()
