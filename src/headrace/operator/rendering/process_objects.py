"""The Job of a DataProcess: a script, or a pod as it was given, with the claim of the dataset in its containers."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.api.dataprocess import DataProcess, JobProcessor, ScriptProcessor
from headrace.api.writing import part_content
from headrace.operator.rendering import job_objects
from headrace.operator.rendering.naming import Names
from headrace.operator.rendering.render_context import RenderContext
from headrace.plan.job_specs import ProcessJob

Content = dict[str, Any]

SCRIPT = "script"
RETRIES = 3
"""How often a program is tried again with restartPolicy OnFailure, as Fluid has it."""

_SCRIPT_FOLDER = "/etc/headrace/script"
_DATA = "headrace-dataset"


def process_objects(
    operation: DataProcess, job: ProcessJob, run: str, names: Names, render_context: RenderContext
) -> tuple[list[Content], Content]:
    """The objects that the pod reads, and the Job."""
    made: list[Content] = []
    if isinstance(job.program, ScriptProcessor):
        made.append(job_objects.files("ConfigMap", {SCRIPT: job.program.source}, operation, names))
        spec = _script(job.program, job_objects.stem_of(operation), render_context)
    else:
        spec = _given(job.program)
    metadata = operation.spec.processor.pod_metadata
    pod = job_objects.JobPod(
        _with_dataset(spec, job),
        labels=metadata.labels if metadata else {},
        annotations=metadata.annotations if metadata else {},
        tries=RETRIES if spec["restartPolicy"] == "OnFailure" else 0,
        is_ours=False,
    )
    return made, job_objects.job(operation, run, names, pod)


def _given(program: JobProcessor) -> Content:
    spec = copy.deepcopy(dict(program.pod_spec))
    spec.setdefault("restartPolicy", "Never")
    return spec


def _script(script: ScriptProcessor, files: str, render_context: RenderContext) -> Content:
    """A pod of one container that runs the script, in the engine's image when it names none."""
    content, engine = part_content(script), render_context.settings.engine
    container: Content = {
        "name": SCRIPT,
        "image": _image(content) or engine.name,
        # The path is the last word: a command gets it as its argument.
        "command": [*(script.command or ("/bin/sh",)), f"{_SCRIPT_FOLDER}/{SCRIPT}"],
        "env": list(content.get("env") or ()),
        "volumeMounts": [
            *(content.get("volumeMounts") or ()),
            {"name": "headrace-script", "mountPath": _SCRIPT_FOLDER, "readOnly": True},
        ],
        "resources": content.get("resources") or {},
    }
    policy = content.get("imagePullPolicy") or ("" if content.get("image") else engine.pull_policy)
    if policy:
        container["imagePullPolicy"] = policy
    return {
        "restartPolicy": script.restart_policy,
        "enableServiceLinks": False,
        "imagePullSecrets": [{"name": each} for each in engine.pull_secrets],
        "containers": [container],
        "volumes": [
            *(content.get("volumes") or ()),
            {"name": "headrace-script", "configMap": {"name": files, "defaultMode": 0o755}},
        ],
    }


def _image(content: Mapping[str, Any]) -> str:
    image, tag = content.get("image") or "", content.get("imageTag") or ""
    return f"{image}:{tag}" if image and tag else image


def _with_dataset(spec: Content, job: ProcessJob) -> Content:
    """The pod with the dataset in every container, and with the account that was asked for."""
    mount: Content = {"name": _DATA, "mountPath": job.mount_path, "readOnly": True}
    if job.sub_path:
        mount["subPath"] = job.sub_path
    claim = {"claimName": job.cluster.partition("/")[2]}
    full = {
        **spec,
        "volumes": [*(spec.get("volumes") or ()), {"name": _DATA, "persistentVolumeClaim": claim}],
    }
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            full[kind] = _mounted(spec[kind], mount)
    if job.service_account:
        full["serviceAccountName"] = job.service_account
    return full


def _mounted(containers: Sequence[Content], mount: Content) -> list[Content]:
    return [
        {
            "terminationMessagePolicy": "FallbackToLogsOnError",
            **each,
            "volumeMounts": [*(each.get("volumeMounts") or ()), mount],
        }
        for each in containers
    ]
