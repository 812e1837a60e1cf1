"""The next version of an image that nodes have: one file more, under another tag.

The result is an OCI layout without the layers that the nodes have already, so it is small and loads at once.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.testing.kubernetes.images import json_of

_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"

Content = dict[str, Any]


def next_image(archive: Path, tag: str, files: Mapping[str, bytes], *, to: Path) -> Path:
    """Writes into the file `to` what makes of an image of `images.image_tar` another one, with these files on top."""
    reference, configuration, layers = _read(archive)
    blobs: dict[str, bytes] = {}
    top = _layer(files)
    configuration["rootfs"]["diff_ids"].append(f"sha256:{_digest(top)}")
    configuration["history"].append(configuration["history"][-1])
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _add(blobs, _CONFIG, _bytes(configuration)),
        "layers": [*layers, _add(blobs, _LAYER, top)],
    }
    name = f"{reference.rpartition(':')[0]}:{tag}"
    entry = {**_add(blobs, _MANIFEST, _bytes(manifest)), "annotations": {"io.containerd.image.name": name}}
    files_of_layout = {
        "oci-layout": _bytes({"imageLayoutVersion": "1.0.0"}),
        "index.json": _bytes({"schemaVersion": 2, "manifests": [entry]}),
        **{f"blobs/sha256/{digest}": content for digest, content in blobs.items()},
    }
    to.write_bytes(_tar(files_of_layout))
    return to


def _read(archive: Path) -> tuple[str, Content, list[Content]]:
    """The name of an image with its tag, its configuration, and its layers as a manifest names them."""
    with tarfile.open(archive) as opened:
        (manifest,) = json_of(opened, "manifest.json")
        configuration: Content = json_of(opened, manifest["Config"])
        sizes = [opened.getmember(name).size for name in manifest["Layers"]]
    digests = configuration["rootfs"]["diff_ids"]
    layers = [
        {"mediaType": _LAYER, "digest": digest, "size": size}
        for digest, size in zip(digests, sizes, strict=True)
    ]
    return manifest["RepoTags"][0], configuration, layers


def _layer(files: Mapping[str, bytes]) -> bytes:
    return _tar({path.lstrip("/"): content for path, content in files.items()})


def _tar(files: Mapping[str, bytes]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return written.getvalue()


def _add(blobs: dict[str, bytes], kind: str, content: bytes) -> Content:
    digest = _digest(content)
    blobs[digest] = content
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _bytes(content: Content) -> bytes:
    return json.dumps(content, sort_keys=True).encode()
