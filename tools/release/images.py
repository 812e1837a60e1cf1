"""Both images as archives of the OCI: the layers of `make images`, with the engine of the wheel."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tools.release.package import native_module
from tools.release.sources import Sources

from headrace.settings.environment import Environment
from headrace.testing.kubernetes.build_images import ENTRYPOINT, ENVIRONMENT, NOBODY
from headrace.testing.kubernetes.debian_root import root_tar
from headrace.testing.kubernetes.images import run_settings
from headrace.testing.kubernetes.oci_archive import oci_archive
from headrace.testing.kubernetes.packages import headrace_tar, packages_tar

LOCK = "requirements-kubernetes.lock"
NAMES = ("operator", "engine")
_ARCHITECTURE = "amd64"


class Image(NamedTuple):
    """An image of a release."""

    name: str
    archive: Path
    digest: str


class Lower(NamedTuple):
    """The layers below Headrace, which both images share."""

    root: Path
    packages: Path


def lower_layers(sources: Sources) -> Lower:
    """The Debian root and the locked Python packages, made now if this machine does not have them."""
    cache = Environment.current().cache_directory / "images"
    return Lower(root_tar(cache), packages_tar(sources.folder / LOCK, cache))


def build_images(sources: Sources, lower: Lower, wheel: Path, prefix: str, to: Path) -> list[Image]:
    """Both images in the folder `to`. Their names begin with `prefix`, such as registry.example.com/headrace."""
    with TemporaryDirectory(prefix="headrace-layers-", dir=to) as made:
        native = Path(made) / "_native.abi3.so"
        native.write_bytes(native_module(wheel))
        native.chmod(0o755)
        return [
            _image(f"{prefix}/{name}", sources, lower, native=native if name == "engine" else None, to=to)
            for name in NAMES
        ]


def _image(reference: str, sources: Sources, lower: Lower, *, native: Path | None, to: Path) -> Image:
    name = reference.rpartition("/")[2]
    archive = to / f"headrace-{name}-{sources.version}-linux-{_ARCHITECTURE}.oci.tar"
    runs = run_settings(
        entrypoint=ENTRYPOINT,
        env=ENVIRONMENT,
        user=NOBODY if native is None else "",
        labels=_labels(name, sources),
    )
    with TemporaryDirectory(prefix=f".{name}-", dir=to) as made:
        top = headrace_tar(sources.folder, Path(made) / "headrace.tar", native=native)
        digest = oci_archive(reference, sources.version, [*lower, top], runs, to=archive)
    return Image(name, archive, digest)


def _labels(name: str, sources: Sources) -> dict[str, str]:
    said = {
        "title": f"Headrace {name}",
        "description": "Data acceleration for AI training: a bucket as fast local files",
        "version": sources.version,
        "revision": sources.commit,
        "licenses": "Apache-2.0",
    }
    return {f"org.opencontainers.image.{key}": value for key, value in said.items()}
