"""Folders of the nodes that datasets read: mounted read-only into master and workers, as far as they are opened.

The opened folder is mounted, whole, and never the one that a dataset names: kubelet would follow a link there to any
place of the node. In the pod such a link leads into the pod's own file system.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.plan import mount_addresses
from headrace.plan.roles import Role
from headrace.settings.roles import MemberSettings

Content = dict[str, Any]

_PLACE = "/nodes"
"""Where folders of the node appear in a pod, below their own paths."""


def seen_address(address: str, open_folders: Iterable[str]) -> str:
    """The address of an origin as a pod has it."""
    folder = mount_addresses.folder_of(address)
    return f"local://{_PLACE}{folder}" if folder and mount_addresses.opened(folder, open_folders) else address


def local_folders(role: Role, open_folders: Iterable[str]) -> tuple[list[Content], list[Content]]:
    """The volumes that a role's origins lie in, and where its container has them."""
    if isinstance(role.settings, MemberSettings):
        return [], []
    named = (mount_addresses.folder_of(origin.origin) for origin in role.settings.origins)
    found = {mount_addresses.opened(folder, open_folders) for folder in named if folder}
    numbered = list(enumerate(sorted(filter(None, found))))
    return [
        {"name": f"folder-{number}", "hostPath": {"path": folder, "type": "Directory"}}
        for number, folder in numbered
    ], [
        {
            "name": f"folder-{number}",
            "mountPath": f"{_PLACE}{folder}",
            "readOnly": True,
            # What an administrator mounts there later is seen, too.
            "mountPropagation": "HostToContainer",
        }
        for number, folder in numbered
    ]
