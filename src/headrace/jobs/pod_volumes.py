"""The volumes of a job's pods, and where containers see them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from headrace.jobs.mount_paths import SHARED_MEMORY, holds
from headrace.jobs.naming import record_name
from headrace.jobs.spec import JobSpec

Content = dict[str, Any]

CODE_FOLDER = "/code"
"""Where what fetches code puts it."""

# Of this module, of mpi.py, and of the MPI operator.
_OWN = ("dshm", "config-files", "code-sync", "training-data-", "headrace-job", "ssh-auth", "mpi-job-config")


@dataclass(frozen=True, slots=True)
class Volumes:
    """Volumes of a pod, and how its main container sees them."""

    volumes: tuple[Content, ...] = ()
    mounts: tuple[Content, ...] = ()

    def __add__(self, other: Volumes) -> Volumes:
        return Volumes(self.volumes + other.volumes, self.mounts + other.mounts)


NO_VOLUMES = Volumes()


def pod_volumes(spec: JobSpec, *, with_data: bool) -> Volumes:
    """Those of a role: shared memory, files of the job, code; data as well if its processes read it."""
    found = shared_memory(spec.shared_memory) + config_files(spec) + code(spec)
    return data_volumes(spec) + found if with_data else found


def data_volumes(spec: JobSpec) -> Volumes:
    """Claims under their own names, and folders of the node."""
    claims = [
        Volumes(
            (
                {
                    "name": _volume_name(volume.claim, number),
                    "persistentVolumeClaim": _claim(volume.claim, volume.read_only),
                },
            ),
            (
                _mount(
                    _volume_name(volume.claim, number),
                    volume.path,
                    volume.sub_path,
                    read_only=volume.read_only,
                ),
            ),
        )
        for number, volume in enumerate(spec.data)
    ]
    folders = [
        Volumes(
            ({"name": f"training-data-{number}", "hostPath": {"path": folder.host_path}},),
            (_mount(f"training-data-{number}", folder.path),),
        )
        for number, folder in enumerate(spec.host_folders)
    ]
    return _sum([*claims, *folders])


def shared_memory(size: str) -> Volumes:
    """Data loaders hand tensors on through it, and a container's own is of 64 MiB."""
    if not size:
        return NO_VOLUMES
    volume = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}
    return Volumes((volume,), (_mount("dshm", SHARED_MEMORY),))


def config_files(spec: JobSpec) -> Volumes:
    """Each file at its own path, so that nothing beside it is hidden."""
    if not spec.config_files:
        return NO_VOLUMES
    secret = {"secretName": record_name(spec.name, spec.kind), "items": _items(spec)}
    mounts = (
        _mount("config-files", file.path, file_key(number), read_only=True)
        for number, file in enumerate(spec.config_files)
    )
    return Volumes(({"name": "config-files", "secret": secret},), tuple(mounts))


def code(spec: JobSpec) -> Volumes:
    """The folder that code is fetched into."""
    if spec.code is None:
        return NO_VOLUMES
    folder = str(PurePosixPath(spec.working_dir) / "code")
    return Volumes(({"name": "code-sync", "emptyDir": {}},), (_mount("code-sync", folder),))


def volume_of_folder(spec: JobSpec, folder: str) -> Volumes:
    """The one data volume that a folder lies in; nothing if there is none."""
    data = data_volumes(spec)
    fitting = [mount for mount in data.mounts if holds(mount["mountPath"], folder)]
    if not fitting:
        return NO_VOLUMES
    mount = max(fitting, key=lambda each: len(each["mountPath"]))
    return Volumes(tuple(each for each in data.volumes if each["name"] == mount["name"]), (mount,))


def file_key(number: int) -> str:
    """Of a file of the job, in its Secret."""
    return f"file-{number}"


def _items(spec: JobSpec) -> list[Content]:
    return [{"key": file_key(number), "path": file_key(number)} for number in range(len(spec.config_files))]


def _volume_name(claim: str, number: int) -> str:
    # Claims may have dots and be long, volumes may not.
    plain = len(claim) <= 63 and "." not in claim and not claim.startswith(_OWN)
    return claim if plain else f"claim-{number}"


def _claim(name: str, read_only: bool) -> Content:
    return {"claimName": name} | ({"readOnly": True} if read_only else {})


def _mount(name: str, path: str, sub_path: str = "", *, read_only: bool = False) -> Content:
    found: Content = {"name": name, "mountPath": path}
    found |= {"subPath": sub_path} if sub_path else {}
    return found | ({"readOnly": True} if read_only else {})


def _sum(parts: Iterable[Volumes]) -> Volumes:
    total = NO_VOLUMES
    for part in parts:
        total = total + part
    return total
