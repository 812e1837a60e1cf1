"""Code that is fetched before a pod's processes start, by git or rsync."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from headrace.jobs.pod_volumes import CODE_FOLDER
from headrace.jobs.spec import CodeSync, JobSpec

Content = dict[str, Any]

CONTAINER = "init-code"
GIT_IMAGE = "registry.k8s.io/git-sync/git-sync:v4.4.0"


def code_container(spec: JobSpec, environment: Sequence[Content]) -> Content:
    """The container that fetches it. It has the job's variables: a branch and credentials come by them."""
    if spec.code is None:
        raise ValueError("this job has no code to fetch")
    own = git_variables(spec.code) if spec.code.mode == "git" else {}
    found: Content = {
        "name": CONTAINER,
        "image": spec.code.image or GIT_IMAGE,
        "imagePullPolicy": spec.image_pull_policy,
        "env": [*environment, *({"name": name, "value": value} for name, value in own.items())],
        "volumeMounts": [{"name": "code-sync", "mountPath": CODE_FOLDER}],
    }
    if spec.code.mode == "rsync":
        found["command"] = ["rsync", "-avP", "--", spec.code.source, CODE_FOLDER]
    return found


def project_name(source: str) -> str:
    """`models` of `https://github.com/tensorflow/models.git`: the folder that the code is in."""
    return PurePosixPath(source.rstrip("/")).name.removesuffix(".git")


def git_variables(code: CodeSync) -> dict[str, str]:
    """The variables of git-sync, by its names of today and those of its third version."""
    words = {"REPO": code.source, "ROOT": CODE_FOLDER, "ONE_TIME": "true"}
    name = project_name(code.source)
    new = {f"GITSYNC_{word}": value for word, value in words.items()}
    old = {f"GIT_SYNC_{word}": value for word, value in words.items()}
    return {**new, "GITSYNC_LINK": name, **old, "GIT_SYNC_DEST": name}
