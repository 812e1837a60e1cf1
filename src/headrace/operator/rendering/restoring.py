"""The container that puts the list of files of a backup before a master that begins: it runs first in its pod."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.api.mounts import scheme_of
from headrace.errors import RefusedError
from headrace.operator.rendering import role_files
from headrace.operator.rendering.confining import BRIEF
from headrace.operator.rendering.naming import Names
from headrace.operator.rendering.render_context import RenderContext
from headrace.plan import mount_addresses
from headrace.plan.roles import Role

Content = dict[str, Any]

RESTORE = "restore"
FOLDER = "/backup"
"""Where the folder of a backup, or the claim that has it, appears in a pod."""


@dataclass(frozen=True, slots=True)
class BackupPlace:
    """The volume of a backup's place, where a container has it, and the folder of the backup as it sees it."""

    volume: Content
    mount: Content
    folder: str


def place_of(place: str, render_context: RenderContext, *, read_only: bool) -> BackupPlace:
    """The place of a backup: in a claim, or below one of the nodes' folders for backups."""
    mount: Content = {"name": "backup", "mountPath": FOLDER, **({"readOnly": True} if read_only else {})}
    if scheme_of(place) == mount_addresses.CLAIM:
        claim, folder = mount_addresses.claim_of(place)
        source = {"persistentVolumeClaim": {"claimName": claim, "readOnly": read_only}}
        return BackupPlace({"name": "backup", **source}, mount, f"{FOLDER}/{folder}".rstrip("/"))
    path = mount_addresses.folder_of(place)
    root = mount_addresses.opened(path, render_context.settings.policy.backup_folders)
    if root is None or root == path:
        raise RefusedError.of(
            f"{place} is in no folder for backups",
            hint="have the administrator add it to policy.backupFolders",
        )
    source = {"hostPath": {"path": root, "type": "DirectoryOrCreate"}}
    # A part of the volume: kubelet follows no link there, whoever owns a folder of a former backup.
    part = {"subPath": path.removeprefix(f"{root}/")}
    return BackupPlace({"name": "backup", **source}, mount | part, FOLDER)


def restoring(
    role: Role, names: Names, render_context: RenderContext, security: Content
) -> tuple[list[Content], list[Content]]:
    """Volumes and containers; none for a role that begins empty. They run as the master does."""
    if role.restore_from is None or not render_context.can_restore:
        return [], []
    state = role_files.MASTER_STATE
    place = place_of(role.restore_from, render_context, read_only=True)
    engine = render_context.settings.engine
    container = {
        "name": RESTORE,
        "image": engine.name,
        "imagePullPolicy": engine.pull_policy,
        "args": ["restore", "--dataset", names.title, "--folder", place.folder, "--to", f"{state}/engine"],
        "env": [{"name": "HEADRACE_TRUSTED_FOLDERS", "value": state}],
        "resources": BRIEF,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "state", "mountPath": state},
            place.mount,
        ],
        "securityContext": security,
    }
    return [place.volume], [container]
