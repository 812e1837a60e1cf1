"""The settings file of each role, as the role's own command reads it."""

from __future__ import annotations

import json
from typing import Any

from headrace.operator.rendering.local_folders import seen_address
from headrace.operator.rendering.naming import MASTER_PORT, METRICS_PORT, WORKER_PORT, Names
from headrace.operator.rendering.render_context import RenderContext
from headrace.operator.rendering.secret_volumes import secret_folder, secret_numbers
from headrace.plan.roles import Role, RoleKind
from headrace.settings.roles import MemberSettings

SETTINGS_FOLDER = "/etc/headrace/settings"
TOKEN_FILE = "/etc/headrace/token/token"  # noqa: S105 - a path
MASTER_STATE = "/var/lib/headrace/master"


def mountpoint(render_context: RenderContext, names: Names) -> str:
    """The mountpoint of the dataset on a node."""
    return f"{render_context.settings.node_folder}/mounts/{names.title}"


def state_folder(render_context: RenderContext, names: Names) -> str:
    """The folder of a node that holds what the dataset's roles keep there, seen by all of them at the same place."""
    return f"{render_context.settings.node_folder}/state/{names.title}"


def keeper_folder(render_context: RenderContext) -> str:
    """The folder in which the keeper of a node listens."""
    return f"{render_context.settings.node_folder}/keeper"


def settings_file(role: Role, names: Names, render_context: RenderContext) -> str:
    """The file, in JSON, which is YAML. Settings that differ from pod to pod come by the environment."""
    own = role.settings.model_dump(
        mode="json", exclude_unset=True, exclude_none=True, exclude={"id", "node", "origins"}
    )
    return json.dumps(own | _shared(render_context) | _of_kind(role, names, render_context), indent=1)


def _shared(render_context: RenderContext) -> dict[str, Any]:
    settings = render_context.settings
    return {"token_file": TOKEN_FILE, "log_level": settings.log_level, "log_format": settings.log_format}


def _of_kind(role: Role, names: Names, render_context: RenderContext) -> dict[str, Any]:
    if isinstance(role.settings, MemberSettings):
        return {
            "master": render_context.master,
            "mountpoint": mountpoint(render_context, names),
            "state_directory": f"{state_folder(render_context, names)}/mount",
            "allow_other": True,
            "metrics_address": f":{METRICS_PORT}",
            "keeper": f"{keeper_folder(render_context)}/keeper.sock",
        }
    if role.kind is RoleKind.MASTER:
        return {
            "listen": f":{MASTER_PORT}",
            "state_directory": MASTER_STATE,
            "origins": _origins(role, render_context),
        }
    return {
        "master": render_context.master,
        "listen": f":{WORKER_PORT}",
        "metrics_address": f":{METRICS_PORT}",
        "cache": [str(folder.word()) for folder in role.cache],
        "fit_cache": True,
        "lingers_drained": True,
        "origins": _origins(role, render_context),
    }


def _origins(role: Role, render_context: RenderContext) -> list[dict[str, Any]]:
    """The origins, each with the folder of its credentials."""
    if isinstance(role.settings, MemberSettings):
        return []
    numbers = secret_numbers(role)
    found = []
    for origin in role.settings.origins:
        content = origin.model_dump(mode="json", exclude_none=True)
        content["origin"] = seen_address(origin.origin, render_context.settings.local_folders)
        if origin.path in numbers:
            content["secret_file"] = secret_folder(numbers[origin.path])
        found.append(content)
    return found
