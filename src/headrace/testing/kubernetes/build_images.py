"""The images of the test cluster, each a tar that containerd imports; `make images` is this module.

They hold what deploy/images/Dockerfile puts into the images of the same names, made without a registry and without a
builder: a Debian root, the locked Python packages, and Headrace on top. The lower two are kept outside of the checkout.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.settings.environment import Environment
from headrace.testing.kubernetes.debian_root import made_once, root_tar
from headrace.testing.kubernetes.images import image_tar
from headrace.testing.kubernetes.packages import headrace_tar, packages_tar, sources_digest

CHECKOUT = Path(__file__).parents[4]
LOCK = CHECKOUT / "requirements-kubernetes.lock"
TAG = "test"
# A first process ignores signals that it does not handle: a program of Python would end only once it has begun.
ENTRYPOINT = ("tini", "--", "headrace")
# Nobody of the operator's image needs a right on files; 65532 is what "nonroot" is elsewhere, too.
NOBODY = "65532:65532"
ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "LANG": "C.UTF-8"}


@dataclass(frozen=True)
class Images:
    """The tars, by what they are for."""

    operator: Path
    engine: Path
    test_tools: Path

    def __iter__(self) -> Iterator[Path]:
        return iter((self.operator, self.engine, self.test_tools))


def build_images(to: Path | None = None) -> Images:
    """The images of this checkout, in the folder `to` (.cache/images). Unchanged images are not written again."""
    folder = to or CHECKOUT / ".cache" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    cache = Environment.current().cache_directory / "images"
    root = root_tar(cache)
    lower = (root, packages_tar(LOCK, cache))
    # Whoever wants the same images at the same time waits for them.
    with made_once(folder / "images"):
        return Images(
            operator=_headrace_image("operator", lower, folder, native=None),
            engine=_headrace_image("engine", lower, folder, native=_native_module()),
            test_tools=_test_tools(root, folder),
        )


def _headrace_image(name: str, lower: Sequence[Path], folder: Path, *, native: Path | None) -> Path:
    tar = folder / f"headrace-{name}.tar"
    key = _digest(*(layer.name for layer in lower), sources_digest(CHECKOUT), _content(native), name)
    if _is_made(tar, key):
        return tar
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}-") as made:
        top = headrace_tar(CHECKOUT, Path(made) / "headrace.tar", native=native)
        image_tar(
            f"headrace/{name}",
            TAG,
            [*lower, top],
            to=tar,
            entrypoint=ENTRYPOINT,
            env=ENVIRONMENT,
            user=NOBODY if native is None else "",
        )
    _key_file(tar).write_text(key)
    return tar


def _test_tools(root: Path, folder: Path) -> Path:
    tar = folder / "headrace-test-tools.tar"
    key = _digest(root.name)
    if not _is_made(tar, key):
        image_tar("headrace/test-tools", TAG, [root], to=tar, command=("/bin/sh",), env=ENVIRONMENT)
        _key_file(tar).write_text(key)
    return tar


def _native_module() -> Path:
    found = sorted((CHECKOUT / "src" / "headrace").glob("_native*.so"))
    if not found:
        raise RuntimeError("the native module is not built: make build")
    return found[0]


def _is_made(tar: Path, key: str) -> bool:
    file = _key_file(tar)
    return tar.exists() and file.exists() and file.read_text() == key


def _key_file(tar: Path) -> Path:
    return tar.with_suffix(".key")


def _digest(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


def _content(file: Path | None) -> str:
    if file is None:
        return ""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def main(arguments: Sequence[str]) -> int:
    """Builds the images and says where they are."""
    parser = argparse.ArgumentParser(prog="build_images", description=build_images.__doc__)
    parser.add_argument(
        "--to", type=Path, metavar="FOLDER", help="folder of the tars; .cache/images by default"
    )
    for tar in build_images(parser.parse_args(arguments).to):
        sys.stdout.write(f"{tar}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
