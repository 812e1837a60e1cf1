"""The files of a role: those that it may read where it runs as another user than root, and folders of the node.

Secrets are root's, and readable by the group of the pod. A folder of a node is made and given to the user by a
container that runs before, as root; the role sees it as a part of the place in which it was made, so that kubelet
follows no link.
"""

from __future__ import annotations

from typing import Any

from headrace.operator.rendering import role_files
from headrace.operator.rendering.confining import BRIEF, confined
from headrace.operator.rendering.naming import INDEX_LABEL, Names
from headrace.operator.rendering.render_context import RenderContext
from headrace.plan.roles import CacheFolder, Role, RoleKind

Content = dict[str, Any]

OWN_FOLDERS = "own-folders"
_PLACES = "/host"
"""Where that container has the places of the node in which caches are."""


def pod_security(role: Role) -> Content:
    """The rules for a pod's volumes. Volumes that a person added are given to the group once, as Kubernetes does it."""
    if role.run_as is None:
        return {}
    return {"fsGroup": role.run_as.gid, "fsGroupChangePolicy": "OnRootMismatch"}


def place_of(folder: CacheFolder, names: Names) -> str:
    """The folder of the node that somebody named, in which a cache has a folder of its own."""
    return folder.folder.removesuffix(f"/{names.title}") or "/"


def own_folders(role: Role, names: Names, render_context: RenderContext) -> list[Content]:
    """The container that gives a worker its folders; none where it has none. Its volumes are the worker's."""
    is_of_node = any(folder.volume_type == "hostPath" for folder in role.cache)
    if role.kind is not RoleKind.WORKER or (role.run_as is None and not is_of_node):
        return []
    uid, gid = (role.run_as.uid, role.run_as.gid) if role.run_as else (0, 0)
    engine, state = render_context.settings.engine, role_files.state_folder(render_context, names)
    places = {
        f"cache-{number}": f"{_PLACES}{place_of(folder, names)}".rstrip("/")
        for number, folder in enumerate(role.cache)
        if folder.volume_type == "hostPath"
    }
    user = [f"--uid={uid}", f"--gid={gid}"]
    return [
        {
            "name": OWN_FOLDERS,
            "image": engine.name,
            "imagePullPolicy": engine.pull_policy,
            "args": [
                *(OWN_FOLDERS, f"--dataset={names.title}", *user, f"--state={state}/worker-$(POD_INDEX)"),
                *(f"--cache={place}" for place in places.values()),
            ],
            "env": [
                {
                    "name": "POD_INDEX",
                    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX_LABEL}']"}},
                }
            ],
            "resources": BRIEF,
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [
                {"name": "state", "mountPath": state},
                *({"name": name, "mountPath": place} for name, place in places.items()),
            ],
            # Root, whoever the role is: it makes folders in those of others, and gives them away.
            "securityContext": {"runAsUser": 0, "runAsGroup": 0, **confined("CHOWN", "DAC_OVERRIDE")},
        }
    ]
