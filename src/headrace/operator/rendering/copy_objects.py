"""The Job of a DataMigrate: `headrace copy`, with its settings in a ConfigMap and its keys in projected Secrets.

Its ledger lets a pod that was killed go on, and a scheduled run leave alone what is there. So it lies on a node,
beside the states of the dataset, by the name of the operation, and goes when the dataset is swept away. Only nodes that
the dataset uses are swept, so such a copy runs on one of those. Where other nodes are asked for, by the operation or a
claim, the ledger lies in the pod: a new pod compares both sides by their bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.api.datamigrate import DataMigrate
from headrace.api.dataset import Dataset
from headrace.api.writing import part_content
from headrace.errors import UnsupportedError
from headrace.operator.rendering import job_objects, role_files, role_tokens
from headrace.operator.rendering.naming import COPY_PORT, Names, names_of
from headrace.operator.rendering.render_context import RenderContext
from headrace.operator.rendering.role_pods import on_nodes
from headrace.operator.rendering.role_volumes import CLAIMS
from headrace.operator.rendering.secret_volumes import file_volumes, plain_values, secret_folder
from headrace.plan.job_specs import CopyJob, CopyPlace

Content = dict[str, Any]

COPY = "copy"
_STATE = "/var/lib/headrace/copy"
_FILES_PER_PROCESS = 16
_MOST_FILES = 1024
_LEAST = {"requests": {"cpu": "100m", "memory": "256Mi"}}
_LOCAL = "local://"


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """An order with all that its pod needs. `nodes` are those that the dataset uses, `home` where it ran before."""

    operation: DataMigrate
    job: CopyJob
    names: Names
    render_context: RenderContext
    nodes: tuple[str, ...] = ()
    home: str = ""

    @property
    def claims(self) -> dict[str, bool]:
        """The claims that it needs, and whether it only reads them."""
        found: dict[str, bool] = {}
        for place, reads in ((self.job.source, True), (self.job.target, False)):
            if claim := _claim(place):
                found[claim] = reads and found.get(claim, True)
        return found

    @property
    def keeps_on_node(self) -> bool:
        """True when the ledger lies on the node."""
        spec = self.operation.spec
        return bool(self.nodes) and not (self.claims or spec.node_selector or spec.affinity)


def copy_objects(
    plan: CopyPlan, run: str, datasets: Mapping[str, Dataset], tolerations: Sequence[Content] = ()
) -> tuple[list[Content], Content]:
    """The objects that the pod reads, and the Job."""
    operation, names = plan.operation, plan.names
    made = [job_objects.files("ConfigMap", {"copy.yaml": _settings(plan)}, operation, names)]
    if values := plain_values(_secrets(plan.job), datasets):
        made.append(job_objects.files("Secret", values, operation, names))
    metadata = operation.spec.pod_metadata
    pod = job_objects.JobPod(
        _pod(plan, tolerations),
        labels=metadata.labels if metadata else {},
        annotations=metadata.annotations if metadata else {},
        tries=job_objects.TRIES,
    )
    return made, job_objects.job(operation, run, names, pod)


def _settings(plan: CopyPlan) -> str:
    job, settings = plan.job, plan.render_context.settings
    numbers = iter(range(len(_secrets(job))))
    content = {
        **_source(plan, numbers),
        "target": _origin(job.target, numbers),
        "files": min(_FILES_PER_PROCESS * job.parallelism, _MOST_FILES),
        "state_directory": _STATE,
        "machine_credentials": settings.machine_credentials,
        "last_word_file": job_objects.LAST_WORD,
        "progress_address": f"0.0.0.0:{COPY_PORT}",
        "log_level": settings.log_level,
        "log_format": settings.log_format,
    }
    return json.dumps(content, indent=1)


def _source(plan: CopyPlan, numbers: Iterator[int]) -> Content:
    source = plan.job.source
    if source.cluster is None:
        return {"source": _origin(source, numbers)}
    return {
        "master": plan.render_context.master,
        "token_file": role_files.TOKEN_FILE,
        "source_path": source.path,
    }


def _origin(place: CopyPlace, numbers: Iterator[int]) -> Content:
    if place.origin is None:
        raise ValueError("a place of a copy is a dataset or an origin")
    content = place.origin.model_dump(mode="json", exclude_none=True) | {"path": ""}
    for _ in place.secrets:
        content["secret_file"] = secret_folder(next(numbers))
    return content


def _secrets(job: CopyJob) -> list[Any]:
    return [*job.source.secrets, *job.target.secrets]


def _claim(place: CopyPlace) -> str:
    """The claim that a side lies in. Raises `UnsupportedError` for a folder of the pod itself, which nobody wants."""
    if place.origin is None or not place.origin.origin.startswith(_LOCAL):
        return ""
    path = place.origin.origin.removeprefix(_LOCAL)
    if not path.startswith(f"{CLAIMS}/"):
        raise UnsupportedError.of(
            f"{place.origin.origin} is a folder of no node in particular",
            hint="name a claim: pvc://CLAIM/FOLDER",
        )
    return path.removeprefix(f"{CLAIMS}/").partition("/")[0]


def _pod(plan: CopyPlan, tolerations: Sequence[Content]) -> Content:
    spec = part_content(plan.operation.spec)
    parts = [
        _files(plan),
        file_volumes(_secrets(plan.job), job_objects.stem_of(plan.operation)),
        _state(plan),
    ]
    parts.append(_claims(plan))
    volumes = [each for made, _ in parts for each in made]
    container = {
        "name": COPY,
        "args": ["copy", "--config", f"{role_files.SETTINGS_FOLDER}/copy.yaml"],
        "ports": [{"name": "progress", "containerPort": COPY_PORT}],
        "env": [
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "HEADRACE_COPY_NODE", "value": "$(NODE_NAME)"},
            {"name": "HEADRACE_TRUSTED_FOLDERS", "value": "" if plan.keeps_on_node else _STATE},
        ],
        "resources": spec.get("resources") or _LEAST,
        "volumeMounts": [each for _, made in parts for each in made],
    }
    pod = job_objects.own_pod(container, plan.render_context, volumes)
    pod["tolerations"] = [*tolerations, *(spec.get("tolerations") or ())]
    if affinity := _affinity(plan, spec):
        pod["affinity"] = affinity
    for name in ("nodeSelector", "schedulerName"):
        if spec.get(name):
            pod[name] = spec[name]
    return pod


def _affinity(plan: CopyPlan, spec: Content) -> Content:
    """Where its ledger is, or will be swept; else what was asked for."""
    if not plan.keeps_on_node:
        return dict(spec.get("affinity") or {})
    affinity = on_nodes(list(plan.nodes))
    if plan.home:
        (term,) = on_nodes([plan.home])["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        preferred = [{"weight": 100, "preference": term}]
        affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return affinity


def _files(plan: CopyPlan) -> tuple[list[Content], list[Content]]:
    volumes: list[Content] = [
        {"name": "settings", "configMap": {"name": job_objects.stem_of(plan.operation)}}
    ]
    mounts: list[Content] = [{"name": "settings", "mountPath": role_files.SETTINGS_FOLDER, "readOnly": True}]
    if plan.job.source.cluster is not None:
        volume, mount = role_tokens.files_of(names_of(plan.job.source.cluster), role_tokens.READER_KEY)
        volumes.append(volume)
        mounts.append(mount)
    return volumes, mounts


def _state(plan: CopyPlan) -> tuple[list[Content], list[Content]]:
    state: Content = {"name": "state", "emptyDir": {}}
    if plan.keeps_on_node:
        folder = role_files.state_folder(plan.render_context, plan.names)
        path = f"{folder}/copies/{plan.operation.name}"
        state = {"name": "state", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
    return [state], [{"name": "state", "mountPath": _STATE}]


def _claims(plan: CopyPlan) -> tuple[list[Content], list[Content]]:
    volumes: list[Content] = []
    mounts: list[Content] = []
    for number, (claim, reads) in enumerate(sorted(plan.claims.items())):
        name = f"claim-{number}"
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim, "readOnly": reads}})
        mounts.append({"name": name, "mountPath": f"{CLAIMS}/{claim}", "readOnly": reads})
    return volumes, mounts
