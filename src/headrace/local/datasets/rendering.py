"""A planned role as a process: its settings and secrets in files of its own, its folders, and its command."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.api.dataset import Dataset
from headrace.api.mounts import scheme_of
from headrace.control.cluster_token import create_token, read_token
from headrace.control.rights import Rights, derive
from headrace.errors import MissingFileError, UnsupportedError
from headrace.local.datasets.claim_facts import claim_facts
from headrace.local.datasets.dataset_layout import Addresses, DatasetLayout, layout_of
from headrace.local.datasets.desired_state import DesiredState
from headrace.local.datasets.secret_files import secret_content
from headrace.local.nodes.managed_folders import ManagedFolders
from headrace.local.nodes.memory_places import on_this_machine
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.processes.private_files import make_private_folder, write_private
from headrace.local.processes.role_processes import RoleOrder
from headrace.netns.loopback import loopback_ports
from headrace.operations.backups import restore
from headrace.plan import mount_addresses
from headrace.plan.roles import MASTER_ID, Role, RoleKind
from headrace.settings.cache_words import parse_cache
from headrace.settings.roles import MemberSettings, OriginSettings

# -P keeps the current folder off the path of modules.
_PROGRAM = (sys.executable, "-P", "-m", "headrace.cli.main")
_FOREGROUND = {RoleKind.MOUNT: ("--foreground",)}


@dataclass(frozen=True, slots=True)
class RenderContext:
    """The values that a role is rendered with."""

    layout: DatasetLayout
    addresses: Addresses
    folders: ManagedFolders
    desired: DesiredState


def render(role: Role, node: VirtualNode, render_context: RenderContext) -> RoleOrder:
    """Writes what the role reads, makes what it writes to, and says how it is started. Blocks.

    Raises what a person has to put right: a folder that cannot be made, a Secret that lost a key.
    """
    if role.run_as is not None and (role.run_as.uid, role.run_as.gid) != (os.geteuid(), os.getegid()):
        raise UnsupportedError.of(
            f"the local backend runs processes as user {os.geteuid()} alone, and runAs asks for {role.run_as.uid}",
            hint="leave runAs out, or call `headrace up` as that user",
        )
    layout = render_context.layout
    make_private_folder(layout.folder)
    if role.kind is RoleKind.MASTER:
        create_token(layout.token)
        if role.restore_from is not None:
            _restore(role.restore_from, render_context)
    node.lend(loopback_ports(_words_of(role)))
    settings = _settings(role, node, render_context)
    _drop_other_caches(layout.settings(role.id), settings, render_context.folders)
    write_private(layout.settings(role.id), json.dumps(settings, indent=1).encode())
    master = settings.get("master") or ""
    return RoleOrder(
        id=layout.order_id(role.id),
        namespace=layout.key[0],
        dataset=layout.key[1],
        kind=role.kind.value,
        node=node.name,
        command=(
            *_PROGRAM,
            role.kind.value,
            "--config",
            str(layout.settings(role.id)),
            *_FOREGROUND.get(role.kind, ()),
        ),
        log_file=str(layout.log(node, role.id)),
        version=f"{role.version}@{master}",
    )


def master_url(cluster: DatasetLayout, addresses: Addresses) -> str | None:
    """The address of a dataset's master, once it has a place."""
    address = addresses.find(cluster.order_id(MASTER_ID))
    return f"http://{address}" if address else None


def cache_folders_of(settings_file: Path) -> list[Path]:
    """The cache folders of a role that was rendered."""
    try:
        return _cache_folders(json.loads(settings_file.read_bytes()))
    except (OSError, ValueError):
        return []


def _cache_folders(settings: Mapping[str, Any]) -> list[Path]:
    return [folder for word in settings.get("cache", ()) for folder in parse_cache(word).folders]


def _drop_other_caches(settings_file: Path, settings: Mapping[str, Any], folders: ManagedFolders) -> None:
    """Caches at places where the role has none any more; before the file that names them is written over."""
    kept = _cache_folders(settings)
    for folder in cache_folders_of(settings_file):
        if folder not in kept:
            folders.drop(folder)


def _words_of(role: Role) -> list[str]:
    """What names hosts among the settings of a role: addresses of origins, and options such as endpoints."""
    origins = () if isinstance(role.settings, MemberSettings) else role.settings.origins
    return [word for origin in origins for word in (origin.origin, *origin.options.values())]


def _restore(place: str, render_context: RenderContext) -> None:
    """Gives a master that begins the list of files of a backup."""
    address = place
    if scheme_of(place) == mount_addresses.CLAIM:
        name, folder = mount_addresses.claim_of(place)
        claim = claim_facts(render_context.desired).get(name)
        if claim is None or not claim.address:
            raise MissingFileError.of(f"dataRestoreLocation names claim {name}, which has no volume")
        address = mount_addresses.below(claim.address, folder)
    restore(render_context.desired.title, address, render_context.layout.state(MASTER_ID) / "engine")


def _settings(role: Role, node: VirtualNode, render_context: RenderContext) -> dict[str, Any]:
    """The role's own settings, and what only this backend knows."""
    cluster = layout_of(render_context.layout.layout, role.cluster)
    own: dict[str, Any] = {
        "token_file": str(_token_file(role, cluster, render_context)),
        "state_directory": str(render_context.layout.state(role.id)),
    }
    if isinstance(role.settings, MemberSettings):
        mountpoint = render_context.layout.mountpoint(node)
        mountpoint.mkdir(parents=True, exist_ok=True, mode=0o755)
        # Other users' reading is for root to allow.
        allowed = role.settings.allow_other and os.geteuid() == 0
        own |= {"mountpoint": str(mountpoint), "allow_other": allowed}
    else:
        own |= {"listen": render_context.addresses.take(render_context.layout.order_id(role.id), node)}
        own |= {"origins": _origins(role, role.settings.origins, render_context)}
    if role.kind is not RoleKind.MASTER:
        own |= {"master": master_url(cluster, render_context.addresses)}
    if role.kind is RoleKind.WORKER:
        own |= {"cache": _cache(role, node, render_context.folders), "fit_cache": True}
    return role.settings.model_dump(mode="json", exclude_unset=True, exclude_none=True) | own


def _token_file(role: Role, cluster: DatasetLayout, render_context: RenderContext) -> Path:
    """The file with the token of a role, which allows what the role needs: of the master's own, or made of it."""
    if role.kind is RoleKind.MASTER:
        return cluster.token
    rights = Rights.WORKER if role.kind is RoleKind.WORKER else Rights.READER
    path = render_context.layout.role(role.id) / "token"
    write_private(path, derive(read_token(cluster.token), rights).get_secret_value().encode())
    return path


def _origins(
    role: Role, origins: tuple[OriginSettings, ...], render_context: RenderContext
) -> list[dict[str, Any]]:
    """The origins, each with its secret file."""
    files = {file.origin_path: file for file in role.secrets}
    found = []
    for number, origin in enumerate(origins):
        content = origin.model_dump(mode="json", exclude_none=True)
        if origin.path in files:
            path = render_context.layout.role(role.id) / "secrets" / f"{number}.json"
            write_private(
                path,
                secret_content(files[origin.path], render_context.desired, _datasets(render_context.desired)),
            )
            content["secret_file"] = str(path)
        found.append(content)
    return found


def _datasets(desired: DesiredState) -> Mapping[str, Dataset]:
    """Whose plain options a role may need: the dataset's own, and those of what it refers to."""
    declared = desired.declared
    if declared is None:
        return {}
    own = {declared.key: declared.dataset} if declared.dataset else {}
    return {**declared.references, **own}


def _cache(role: Role, node: VirtualNode, folders: ManagedFolders) -> list[str]:
    """The cache words. Nodes share this machine's disks, so each has a folder of its own below the named one."""
    made = {folders.make(Path(on_this_machine(each.folder)) / node.name): each for each in role.cache}
    return [str(each.word(str(folder))) for folder, each in made.items()]
