"""A DataProcess on its node: variables, Secrets, volumes; made without a value of a Secret where others see it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.api.dataprocess import JobProcessor, ScriptProcessor
from headrace.errors import ConfigError, HeadraceError, MissingFileError, UnsupportedError
from headrace.local.datasets.desired_state import DesiredState
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.operations.containers import pod_of
from headrace.local.operations.job_driver import Task
from headrace.local.operations.volume_setup import VolumeSetup
from headrace.local.store.records import Record, Reference
from headrace.plan.job_specs import ProcessJob
from headrace.settings.environment import Environment

HIDDEN = "value-of-a-secret"
ENVIRONMENT = {"PATH": "/bin", "HEADRACE_TOKEN": "of the backend", "AWS_SECRET_ACCESS_KEY": "of the caller"}


def record(kind: str, name: str, content: Mapping[str, Any]) -> Record:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Record(Reference(kind, "default", name), f"uid-{name}", 1, 1, now, None, (), content, None)


def furnisher(folder: Path, **spec: Any) -> VolumeSetup:
    """Of a script when there is a source, else of a pod."""
    program = (
        ScriptProcessor.model_validate(spec)
        if "source" in spec
        else JobProcessor.model_validate({"podSpec": spec})
    )
    held = {"k": base64.b64encode(HIDDEN.encode()).decode(), "raw": base64.b64encode(b"\xff").decode()}
    process = record("DataProcess", "p", {})
    desired = DesiredState(("default", "imagenet"), (process, record("Secret", "keys", {"data": held})))
    return VolumeSetup(
        task=Task(process, desired, "once"),
        job=ProcessJob("default/imagenet", "/data", "train", program, None),
        pod=pod_of(program),
        node=VirtualNode("node-1", 0, "198.18.0.1", {}, folder / "node-1"),
        mountpoint=folder / "mounted",
        folder=folder / "own",
        environment=Environment(ENVIRONMENT),
    )


def key(name: str, of: str = "k", **more: Any) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": "keys", "key": of, **more}}}


def test_a_script_is_a_file_and_its_variables_are_what_was_said(tmp_path: Path) -> None:
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)-$$(A)-$(UNKNOWN)"},
        key("S"),
        {"name": "M", "value": "<$(S)>"},
        key("NONE", "nothing", optional=True),
        {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    runner_spec = furnisher(tmp_path, source="echo $S", command=["bash"], env=env).runner_spec()
    ((program,),) = runner_spec.stages
    assert program.environment == {
        "PATH": "/bin",
        "A": "1",
        "B": "1-$(A)-$(UNKNOWN)",
        "S": HIDDEN,
        "M": f"<{HIDDEN}>",
        "N": "node-1",
    }
    file = Path(program.command[1])
    assert (program.command[0], file.read_text(), file.stat().st_mode & 0o777) == ("bash", "echo $S", 0o700)
    assert HIDDEN not in repr(runner_spec)
    (place,) = program.places
    assert (place.source, place.part, place.target) == (str(tmp_path / "mounted"), "train", "/data")
    assert place.read_only


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "c", "command": ["true"], **fields}


def test_all_keys_of_a_secret_and_its_files(tmp_path: Path) -> None:
    mounts = [{"name": "v", "mountPath": "/v"}]
    volume = {"name": "v", "secret": {"secretName": "keys", "items": [{"key": "k", "path": "sub/file"}]}}
    made = furnisher(tmp_path, containers=[container(volumeMounts=mounts)], volumes=[volume])
    ((program,),) = made.runner_spec().stages
    file = Path(program.places[1].source) / "sub" / "file"
    assert (file.read_text(), file.stat().st_mode & 0o777) == (HIDDEN, 0o600)
    assert made.folders == ("/v",)


@pytest.mark.parametrize(
    ("spec", "kind", "named"),
    [
        ({"containers": [container(env=[key("S")], args=["$(S)"])]}, UnsupportedError, "$(S)"),
        (
            {"containers": [container(env=[key("S"), {"name": "M", "value": "<$(S)>"}], args=["$(M)"])]},
            UnsupportedError,
            "$(M)",
        ),
        ({"source": "x", "env": [key("S", "nothing")]}, MissingFileError, "has no key nothing"),
        ({"source": "x", "env": [key("S", "raw")]}, ConfigError, "key raw of Secret keys"),
        (
            {"containers": [container(envFrom=[{"secretRef": {"name": "nobodys"}}])]},
            MissingFileError,
            "no Secret nobodys",
        ),
        (
            {
                "source": "x",
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "volumes": [{"name": "v", "hostPath": {"path": "/no/such/folder"}}],
            },
            MissingFileError,
            "/no/such/folder is not there",
        ),
        (
            {
                "source": "x",
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "nobodys"}}],
            },
            MissingFileError,
            "claim nobodys",
        ),
    ],
)
def test_what_is_lacking_or_would_show_a_secret_is_named(
    tmp_path: Path, spec: dict[str, Any], kind: type[HeadraceError], named: str
) -> None:
    with pytest.raises(kind) as caught:
        furnisher(tmp_path, **spec).runner_spec()
    assert named in caught.value.message
    assert HIDDEN not in caught.value.message


def test_nothing_appears_within_the_dataset(tmp_path: Path) -> None:
    mounts = [{"name": "v", "mountPath": "/data/out"}]
    made = furnisher(tmp_path, source="x", volumeMounts=mounts, volumes=[{"name": "v", "emptyDir": {}}])
    with pytest.raises(ConfigError, match="/data/out is within the dataset"):
        made.folders  # noqa: B018
