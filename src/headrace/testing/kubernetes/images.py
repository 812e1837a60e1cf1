"""Images for containers, made from folders and tars without a registry or a daemon.

The result is a docker-archive: `ctr -n k8s.io images import FILE` takes it, and so do docker and podman. The same
content gives the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# No image tells when it was made: the same content shall give the same image.
_MADE = "1970-01-01T00:00:00Z"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_SEARCH_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer as an uncompressed tar, with the digest of its bytes."""

    path: Path
    digest: str


def image_tar(
    name: str,
    tag: str,
    layers: Sequence[Path],
    *,
    to: Path,
    entrypoint: Sequence[str] = (),
    command: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    user: str = "",
    working_folder: str = "/",
) -> Path:
    """Writes an image into the file `to`, and gives it back; readers never see half of it.

    Each layer is the root of a file system, lowest first: a folder (owners as they are there) or an uncompressed tar.
    A name without a registry (`headrace/engine`) is known to Kubernetes by that name.
    """
    to.parent.mkdir(parents=True, exist_ok=True)
    # Beside the image, not in /tmp: layers are large, and /tmp may be memory.
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=f".{to.name}-") as folder:
        made = stored_layers(layers, Path(folder))
        runs = run_settings(
            entrypoint=entrypoint, command=command, env=env, user=user, working_folder=working_folder
        )
        archive = Path(folder) / "image.tar"
        _write_archive(archive, f"{full_name(name)}:{tag}", made, configuration(runs, made))
        archive.replace(to)
    return to


def run_settings(
    *,
    entrypoint: Sequence[str] = (),
    command: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    user: str = "",
    working_folder: str = "/",
    labels: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """How a container of an image is started, in the words of its configuration."""
    variables = [f"{key}={value}" for key, value in (env or {}).items()]
    if not any(each.startswith("PATH=") for each in variables):
        variables.insert(0, _SEARCH_PATH)
    return {
        "Entrypoint": list(entrypoint) or None,
        "Cmd": list(command) or None,
        "Env": variables,
        "User": user,
        "WorkingDir": working_folder,
        "Labels": dict(labels or {}),
    }


def folder_tar(folder: Path, to: Path, *, changed_s: int | None = None) -> Path:
    """One layer of a folder's content: numeric owners, names in order. With `changed_s` all of it changed at that time,
    in seconds since 1970, so that it does not matter when the folder was filled.
    """

    def filtered(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uname = entry.gname = ""
        entry.mtime = int(entry.mtime) if changed_s is None else changed_s
        return entry

    with tarfile.open(to, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(_below(folder)):
            archive.add(path, arcname=path.relative_to(folder).as_posix(), recursive=False, filter=filtered)
    return to


def image_identity(archive: Path) -> tuple[tuple[str, ...], str]:
    """The names of an archive's image, and a digest that is the same for the same content.

    Archives of `image_tar`, and the OCI layouts of `next_image`.
    """
    with tarfile.open(archive) as content:
        if "index.json" in content.getnames():
            (entry,) = json_of(content, "index.json")["manifests"]
            return (str(entry["annotations"]["io.containerd.image.name"]),), str(entry["digest"])
        (manifest,) = json_of(content, "manifest.json")
        return tuple(manifest["RepoTags"]), str(manifest["Config"])


def json_of(archive: tarfile.TarFile, name: str) -> Any:
    """The JSON in a file of an image's archive."""
    found = archive.extractfile(name)
    if found is None:
        raise ValueError(f"the archive is no image: {name} is no file")
    return json.load(found)


def _below(folder: Path) -> Iterable[Path]:
    for parent, folders, files in os.walk(folder):
        yield from (Path(parent) / name for name in (*folders, *files))


def stored_layers(layers: Sequence[Path], folder: Path) -> list[Layer]:
    """The layers as tars in a folder of the caller's own."""
    return [_layer(path, folder / f"layer-{place}.tar") for place, path in enumerate(layers)]


def _layer(path: Path, to: Path) -> Layer:
    if path.is_dir():
        folder_tar(path, to)
    else:
        # A copy costs less than a layer that changes between its digest and its place in the archive.
        shutil.copyfile(path, to)
    with to.open("rb") as content:
        return Layer(to, hashlib.file_digest(content, "sha256").hexdigest())


def full_name(name: str) -> str:
    """As container runtimes spell a name: without a registry it is one of Docker's."""
    first, _, rest = name.partition("/")
    if rest and (first == "localhost" or "." in first or ":" in first):
        return name
    return f"docker.io/{name if rest else f'library/{name}'}"


def configuration(runs: Mapping[str, object], layers: Sequence[Layer]) -> bytes:
    """The configuration of an image of these layers, which is all that tells it from another one of the same layers."""
    machine = platform.machine()
    shown = {
        "architecture": _ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "created": _MADE,
        "config": {key: value for key, value in runs.items() if value},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in layers]},
        "history": [{"created": _MADE, "created_by": "headrace.testing"} for _ in layers],
    }
    return json.dumps(shown, sort_keys=True).encode()


def _write_archive(to: Path, reference: str, layers: Sequence[Layer], config: bytes) -> None:
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    # Two layers of the same content are one file.
    files = {f"{layer.digest}/layer.tar": layer.path for layer in layers}
    names = [f"{layer.digest}/layer.tar" for layer in layers]
    manifest = [{"Config": config_name, "RepoTags": [reference], "Layers": names}]
    with tarfile.open(to, "w", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, config_name, config)
        for name, path in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = path.stat().st_size
            with path.open("rb") as content:
                archive.addfile(entry, content)
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
