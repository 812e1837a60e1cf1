"""The Job of a DataBackup, and what puts a backup before a master that begins."""

from __future__ import annotations

from typing import Any

from headrace.api.databackup import DataBackup
from headrace.api.mounts import scheme_of
from headrace.operator.rendering import jobs, role_files, tokens
from headrace.operator.rendering.naming import Names
from headrace.operator.rendering.pods import on_nodes
from headrace.operator.rendering.restoring import FOLDER, place_of
from headrace.operator.rendering.surroundings import Surroundings
from headrace.plan import addresses

Content = dict[str, Any]

BACKUP = "backup"
_TRIES = 3
_LEAST = {"requests": {"cpu": "50m", "memory": "128Mi"}}


def backup_objects(
    operation: DataBackup, run: str, names: Names, surroundings: Surroundings, node: str
) -> Content:
    """The Job. A folder of a node is one of `node`, where the master runs; a claim is wherever its volume is."""
    place = operation.spec.backup_path or ""
    volume, folder = place_of(place, read_only=False)
    token, token_mount = tokens.files_of(names, tokens.READER_KEY)
    container = {
        "name": BACKUP,
        "args": _words(operation, names, surroundings, folder),
        "resources": _LEAST,
        "volumeMounts": [
            {"name": volume["name"], "mountPath": FOLDER},
            token_mount,
        ],
    }
    spec = jobs.own_pod(container, surroundings, [volume, token])
    if scheme_of(place) != addresses.CLAIM:
        spec |= {"affinity": on_nodes([node]), "tolerations": [{"operator": "Exists"}]}
    return jobs.job(operation, run, names, jobs.JobPod(spec, tries=_TRIES))


def _words(operation: DataBackup, names: Names, surroundings: Surroundings, folder: str) -> list[str]:
    owner = operation.spec.run_as
    return [
        "backup",
        *("--dataset", names.title),
        *("--folder", folder),
        *("--cluster", surroundings.master),
        *("--token-file", role_files.TOKEN_FILE),
        *("--last-word-file", jobs.LAST_WORD),
        *(("--owner", f"{owner.uid}:{owner.gid}") if owner else ()),
    ]
