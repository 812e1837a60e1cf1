"""What puts the list of files of a backup before a master that begins: a container that runs first in its pod."""

from __future__ import annotations

from typing import Any

from headrace.api.mounts import scheme_of
from headrace.operator.rendering import role_files
from headrace.operator.rendering.naming import Names
from headrace.operator.rendering.render_context import RenderContext
from headrace.plan import mount_addresses
from headrace.plan.roles import Role

Content = dict[str, Any]

RESTORE = "restore"
FOLDER = "/backup"
"""Where the folder of a backup, or the claim that has it, appears in a pod."""


def place_of(place: str, *, read_only: bool) -> tuple[Content, str]:
    """The volume of a backup's place, and the folder of the backup in it as the pod sees it."""
    if scheme_of(place) == mount_addresses.CLAIM:
        claim, folder = mount_addresses.claim_of(place)
        source = {"persistentVolumeClaim": {"claimName": claim, "readOnly": read_only}}
        return {"name": "backup", **source}, f"{FOLDER}/{folder}".rstrip("/")
    path = f"/{mount_addresses.rest_of(place).strip('/')}"
    kind = "Directory" if read_only else "DirectoryOrCreate"
    return {"name": "backup", "hostPath": {"path": path, "type": kind}}, FOLDER


def restoring(
    role: Role, names: Names, render_context: RenderContext, security: Content
) -> tuple[list[Content], list[Content]]:
    """Volumes and containers; none for a role that begins empty. They run as the master does."""
    if role.restore_from is None or not render_context.can_restore:
        return [], []
    state = role_files.MASTER_STATE
    volume, folder = place_of(role.restore_from, read_only=True)
    engine = render_context.settings.engine
    container = {
        "name": RESTORE,
        "image": engine.name,
        "imagePullPolicy": engine.pull_policy,
        "args": ["restore", "--dataset", names.title, "--folder", folder, "--to", f"{state}/engine"],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "state", "mountPath": state},
            {"name": volume["name"], "mountPath": FOLDER, "readOnly": True},
        ],
        "securityContext": security,
    }
    return [volume], [container]
