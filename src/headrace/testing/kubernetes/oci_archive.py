"""Images as archives of the OCI's image layout: what `make release` writes, from the same layers as the test cluster's.

`ctr images import` and `podman load` take such a file, and registries its blobs as they are, so its digest is the
image's digest everywhere. Layers are compressed, since tools that push would compress them and so change that digest.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.testing.kubernetes.images import Layer, configuration, full_name, stored_layers

_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_LEVEL = 6
_PART_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Blob:
    """A file of the layout, on disk or in memory."""

    kind: str
    digest: str
    size_bytes: int
    content: Path | bytes

    @property
    def descriptor(self) -> dict[str, Any]:
        return {"mediaType": self.kind, "digest": f"sha256:{self.digest}", "size": self.size_bytes}


def oci_archive(name: str, tag: str, layers: Sequence[Path], runs: Mapping[str, object], *, to: Path) -> str:
    """Writes an image into the file `to`; the digest of its manifest. `runs` is what `run_settings` made.

    Each layer is an uncompressed tar or a folder, lowest first. The same content gives the same bytes.
    """
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=f".{to.name}-") as folder:
        plain = stored_layers(layers, Path(folder))
        compressed = [_compressed(layer) for layer in plain]
        config = _in_memory(_CONFIG, configuration(runs, plain))
        manifest = _in_memory(_MANIFEST, _manifest(config, compressed))
        archive = Path(folder) / "image.tar"
        _write(archive, f"{full_name(name)}:{tag}", [*compressed, config, manifest])
        archive.replace(to)
    return f"sha256:{manifest.digest}"


def _compressed(layer: Layer) -> _Blob:
    to = layer.path.with_suffix(".gz")
    # Neither a name nor a time in its head: they would differ each time.
    with (
        layer.path.open("rb") as content,
        to.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=raw, mtime=0) as written,
    ):
        shutil.copyfileobj(content, written, _PART_BYTES)
    layer.path.unlink()
    with to.open("rb") as content:
        return _Blob(_LAYER, hashlib.file_digest(content, "sha256").hexdigest(), to.stat().st_size, to)


def _in_memory(kind: str, content: bytes) -> _Blob:
    return _Blob(kind, hashlib.sha256(content).hexdigest(), len(content), content)


def _manifest(config: _Blob, layers: Sequence[_Blob]) -> bytes:
    return _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": config.descriptor,
            "layers": [layer.descriptor for layer in layers],
        }
    )


def _write(to: Path, reference: str, blobs: Sequence[_Blob]) -> None:
    """The manifest is the last of the blobs."""
    names = {
        "io.containerd.image.name": reference,
        "org.opencontainers.image.ref.name": reference,
    }
    index = {"schemaVersion": 2, "manifests": [{**blobs[-1].descriptor, "annotations": names}]}
    with tarfile.open(to, "w", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", _json(index))
        # Two layers of the same content are one file.
        for digest, content in {blob.digest: blob.content for blob in blobs}.items():
            _add(archive, f"blobs/sha256/{digest}", content)


def _add(archive: tarfile.TarFile, name: str, content: Path | bytes) -> None:
    entry = tarfile.TarInfo(name)
    if isinstance(content, bytes):
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
        return
    entry.size = content.stat().st_size
    with content.open("rb") as opened:
        archive.addfile(entry, opened)


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
