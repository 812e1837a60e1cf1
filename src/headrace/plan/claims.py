"""Volumes of claims as origins."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.api.core import PersistentVolume


def address_of(volume: PersistentVolume) -> str:
    """The address of a volume's files as an origin; empty for a kind that cannot be read.

    Of the options of an NFS mount the port counts; all others are for the kernel's client, which is not used.
    """
    spec = volume.spec
    if spec.nfs is not None:
        server = f"[{spec.nfs.server}]" if ":" in spec.nfs.server else spec.nfs.server
        return f"nfs://{server}{_port(spec.mount_options)}/{spec.nfs.path.strip('/')}"
    folder = spec.host_path or spec.local
    return f"local:///{folder.path.strip('/')}" if folder is not None else ""


def _port(options: Iterable[str]) -> str:
    ports = [option.removeprefix("port=") for option in options if option.startswith("port=")]
    return f":{ports[-1]}" if ports and ports[-1].isdecimal() else ""
