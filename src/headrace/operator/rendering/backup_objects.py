"""The Job of a DataBackup, and what puts a backup before a master that begins."""

from __future__ import annotations

from typing import Any

from headrace.api.databackup import DataBackup
from headrace.api.mounts import scheme_of
from headrace.operator.rendering import job_objects, role_files, role_tokens
from headrace.operator.rendering.naming import Names
from headrace.operator.rendering.render_context import RenderContext
from headrace.operator.rendering.restoring import place_of
from headrace.operator.rendering.role_pods import on_nodes
from headrace.plan import mount_addresses

Content = dict[str, Any]

BACKUP = "backup"
_TRIES = 3
_LEAST = {"requests": {"cpu": "50m", "memory": "128Mi"}}


def backup_objects(
    operation: DataBackup, run: str, names: Names, render_context: RenderContext, node: str
) -> Content:
    """The Job. A folder of a node is one of `node`, where the master runs; a claim is wherever its volume is."""
    place = operation.spec.backup_path or ""
    kept = place_of(place, render_context, read_only=False)
    token, token_mount = role_tokens.files_of(names, role_tokens.READER_KEY)
    container = {
        "name": BACKUP,
        "args": _words(operation, names, render_context, kept.folder),
        "resources": _LEAST,
        "volumeMounts": [kept.mount, token_mount],
    }
    spec = job_objects.own_pod(container, render_context, [kept.volume, token])
    if scheme_of(place) != mount_addresses.CLAIM:
        spec |= {"affinity": on_nodes([node]), "tolerations": [{"operator": "Exists"}]}
    return job_objects.job(operation, run, names, job_objects.JobPod(spec, tries=_TRIES))


def _words(operation: DataBackup, names: Names, render_context: RenderContext, folder: str) -> list[str]:
    owner = operation.spec.run_as
    return [
        "backup",
        *("--dataset", names.title),
        *("--folder", folder),
        *("--cluster", render_context.master),
        *("--token-file", role_files.TOKEN_FILE),
        *("--last-word-file", job_objects.LAST_WORD),
        *(("--owner", f"{owner.uid}:{owner.gid}") if owner else ()),
    ]
