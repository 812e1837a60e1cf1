"""Makes a release of the checkout's commit: `make release`. What it is and how it is published: docs/releasing.md."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from cyclonedx.model.component import ComponentType
from tools.release.bill_of_materials import write_bill
from tools.release.chart import build_chart
from tools.release.checksums import sign, write_checksums
from tools.release.commands import ReleaseError, output_of
from tools.release.images import LOCK, Image, build_images, lower_layers
from tools.release.ingredients import Ingredient, crates, debian_packages, python_packages
from tools.release.package import ARCHITECTURES, build_sdist, build_wheel, lacks
from tools.release.sources import Sources, sources_of

ROOT = Path(__file__).parents[2]
_RUNS_HERE = "x86_64"


def main(arguments: Sequence[str]) -> int:
    """Writes the release into a folder, in place of what is there."""
    options = _options(arguments)
    # Modes of files would follow from it.
    os.umask(0o022)
    to: Path = options.to.absolute()
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        with (
            sources_of(ROOT) as sources,
            TemporaryDirectory(prefix=f".{to.name}-", dir=to.parent) as made,
        ):
            folder = Path(made) / "release"
            folder.mkdir()
            _make(sources, options.registry.rstrip("/"), folder)
            if options.sign:
                sign(folder / "SHA256SUMS", options.sign)
            shutil.rmtree(to, ignore_errors=True)
            folder.rename(to)
    except ReleaseError as error:
        _tell(str(error))
        return 1
    _tell(f"{options.to} has the release")
    return 0


def _make(sources: Sources, prefix: str, folder: Path) -> None:
    _tell(f"version {sources.version} of commit {sources.commit}")
    wheels = _wheels(sources, folder)
    sdist = build_sdist(sources, folder)
    write_bill(sdist, ComponentType.LIBRARY, sources, crates(sources.folder, "all"))
    _tell("building the images")
    images = _images(sources, prefix, wheels[_RUNS_HERE], folder)
    helm = Path(output_of([ROOT / "tools" / "install_helm.sh"], folder=ROOT).strip())
    chart = build_chart(sources, images, prefix, helm, folder)
    contained = [Ingredient("oci", each.name, each.digest, namespace=prefix) for each in images]
    write_bill(chart, ComponentType.APPLICATION, sources, contained)
    write_checksums(folder)


def _wheels(sources: Sources, folder: Path) -> dict[str, Path]:
    made: dict[str, Path] = {}
    for architecture in ARCHITECTURES:
        if (lacking := lacks(architecture)) is not None:
            if architecture == _RUNS_HERE:
                raise ReleaseError(f"this machine lacks {lacking}")
            _tell(f"no wheel for {architecture}: this machine lacks {lacking}")
            continue
        _tell(f"building the wheel for {architecture} (about 7 minutes on two cores)")
        wheel = build_wheel(sources, architecture, ROOT / ".cache" / "release" / "target", folder)
        compiled = crates(sources.folder, f"{architecture}-unknown-linux-gnu")
        write_bill(wheel, ComponentType.LIBRARY, sources, compiled)
        made[architecture] = wheel
    return made


def _images(sources: Sources, prefix: str, wheel: Path, folder: Path) -> list[Image]:
    lower = lower_layers(sources)
    images = build_images(sources, lower, wheel, prefix, folder)
    shared = [*debian_packages(lower.root), *python_packages(sources.folder / LOCK)]
    for image in images:
        compiled = crates(sources.folder, f"{_RUNS_HERE}-unknown-linux-gnu") if image.name == "engine" else []
        write_bill(image.archive, ComponentType.CONTAINER, sources, [*shared, *compiled])
    return images


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--to", type=Path, default=ROOT / "dist", metavar="FOLDER", help="dist by default")
    parser.add_argument(
        "--registry",
        default="headrace",
        metavar="PREFIX",
        help="beginning of the images' names, such as registry.example.com/headrace",
    )
    parser.add_argument(
        "--sign",
        metavar="KEY",
        help="name of a key of gpg, such as its fingerprint, to sign the checksums with",
    )
    return parser.parse_args(arguments)


def _tell(text: str) -> None:
    print(f"release: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
