"""The rights of a container of ours on its node, where it is not a mount."""

from __future__ import annotations

from typing import Any

BRIEF = {"requests": {"cpu": "10m", "memory": "64Mi"}}
"""What a container asks for that runs before another one. Where a namespace has a quota, each must say something."""

# To ask from a port below 1024: an NFS server usually answers no other.
_OF_ALL = "NET_BIND_SERVICE"


def confined(*capabilities: str) -> dict[str, Any]:
    """A container's security context: no right of its node but these, whoever its user is."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": [_OF_ALL, *capabilities]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
