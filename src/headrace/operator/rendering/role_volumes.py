"""The volumes of a role's pod: its files, its folders on the node, and the claims that it reads from."""

from __future__ import annotations

from typing import Any

from headrace.operator.rendering import role_files, role_tokens
from headrace.operator.rendering.local_folders import local_folders
from headrace.operator.rendering.naming import SETTINGS_ANNOTATION, Names
from headrace.operator.rendering.own_user import place_of
from headrace.operator.rendering.render_context import RenderContext
from headrace.operator.rendering.secret_volumes import secret_mode, secret_volumes
from headrace.plan.roles import CacheFolder, Role, RoleKind
from headrace.settings.roles import MemberSettings

CLAIMS = "/claims"
"""Where volumes that only kubelet can mount appear in the pods of master and workers."""

Content = dict[str, Any]
Volumes = tuple[list[Content], list[Content]]


def volumes_of(role: Role, names: Names, render_context: RenderContext) -> Volumes:
    """All volumes of a pod, and where its container has them."""
    parts = [_files(role, names), _folders(role, names, render_context)]
    parts += [secret_volumes(role, names), _caches(role, names), _claims(role)]
    parts += [local_folders(role, render_context.settings.local_folders)]
    return [each for volumes, _ in parts for each in volumes], [
        each for _, mounts in parts for each in mounts
    ]


def own_volumes(role: Role) -> Content:
    """The variable that says which folders of a pod nobody else reaches, although every user may write to them."""
    folders = [role_files.MASTER_STATE] if role.kind is RoleKind.MASTER else []
    folders += [folder.folder for folder in role.cache if folder.volume_type != "hostPath"]
    return {"name": "HEADRACE_TRUSTED_FOLDERS", "value": ":".join(folders)}


def claims_of(role: Role) -> list[str]:
    """The claims that a role's origins lie in, as this backend gives them addresses."""
    if isinstance(role.settings, MemberSettings):
        return []
    words = [origin.origin.removeprefix("local://") for origin in role.settings.origins]
    found = {
        word.removeprefix(f"{CLAIMS}/").partition("/")[0] for word in words if word.startswith(f"{CLAIMS}/")
    }
    return sorted(found)


def _files(role: Role, names: Names) -> Volumes:
    items = [{"key": f"{role.kind.value}.yaml", "path": f"{role.kind.value}.yaml"}]
    key = role_tokens.KEY_OF_KIND[role.kind]
    token, token_mount = role_tokens.files_of(names, key, secret_mode(role))
    source: Content = {"configMap": {"name": names.settings, "items": items}}
    if role.kind is RoleKind.MOUNT:
        # Of a pod that is privileged they are part of the pod itself: who may write ConfigMaps of a namespace would
        # choose the folders in which it mounts and writes.
        field = {"fieldPath": f"metadata.annotations['{SETTINGS_ANNOTATION}']"}
        source = {"downwardAPI": {"items": [{"path": f"{role.kind.value}.yaml", "fieldRef": field}]}}
    volumes: list[Content] = [{"name": "settings", **source}, token]
    return volumes, [
        {"name": "settings", "mountPath": role_files.SETTINGS_FOLDER, "readOnly": True},
        token_mount,
    ]


def _folders(role: Role, names: Names, render_context: RenderContext) -> Volumes:
    state = role_files.state_folder(render_context, names)
    if role.kind is RoleKind.MASTER:
        return [{"name": "state", "emptyDir": {}}], [{"name": "state", "mountPath": role_files.MASTER_STATE}]
    volumes, mounts = [_host("state", state)], [{"name": "state", "mountPath": state}]
    if role.kind is RoleKind.MOUNT:
        # The parent, since a mount made below a folder of the pod's own would be seen by nobody else.
        place = role_files.mountpoint(render_context, names).rpartition("/")[0]
        keeper = role_files.keeper_folder(render_context)
        volumes += [_host("mounts", place), _host("keeper", keeper), _host("fuse", "/dev/fuse", "CharDevice")]
        mounts += [
            {"name": "mounts", "mountPath": place, "mountPropagation": "Bidirectional"},
            {"name": "keeper", "mountPath": keeper},
            {"name": "fuse", "mountPath": "/dev/fuse"},
        ]
    return volumes, mounts


def _caches(role: Role, names: Names) -> Volumes:
    volumes, mounts = [], []
    for number, folder in enumerate(role.cache):
        name, is_of_node = f"cache-{number}", folder.volume_type == "hostPath"
        # It is made in a folder of the node by a container before, and not by kubelet, which would follow a link that
        # another user of the node put there: of a part of a volume it follows none.
        volumes.append(_host(name, place_of(folder, names)) if is_of_node else _cache(name, folder))
        part = {"subPath": names.title} if is_of_node else {}
        mounts.append({"name": name, "mountPath": folder.folder, **part})
    return volumes, mounts


def _cache(name: str, folder: CacheFolder) -> Content:
    medium = {"medium": "Memory"} if folder.medium == "MEM" else {}
    return {
        "name": name,
        "emptyDir": {**medium, "sizeLimit": str(folder.quota_bytes + folder.quota_bytes // 10)},
    }


def _claims(role: Role) -> Volumes:
    claims = claims_of(role)
    volumes: list[Content] = [
        {"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
        for number, claim in enumerate(claims)
    ]
    mounts = [
        {"name": f"claim-{number}", "mountPath": f"{CLAIMS}/{claim}", "readOnly": True}
        for number, claim in enumerate(claims)
    ]
    return volumes, mounts


def _host(name: str, path: str, kind: str = "DirectoryOrCreate") -> Content:
    return {"name": name, "hostPath": {"path": path, "type": kind}}
