"""An image with a shell and Python for the pods of tests, made of this machine's own files: no registry is asked."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from headrace.testing.kubernetes.images import image_tar

TOOL_IMAGE = "localhost/headrace-tools:1"
_PROGRAMS = ("sh", "cat", "ls", "sleep", "getent", "mount", "umount", "mkdir", "sha256sum")
# Looked up by name at run time, so no program lists them.
_NAME_LIBRARIES = ("libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2")
_PYTHON = Path("/usr/bin/python3")
_LEFT_OUT = ("test", "tests", "__pycache__", "dist-packages", "idlelib", "ensurepip", "config-*")


def tool_image(to: Path) -> Path:
    """The archive of the image `TOOL_IMAGE`: Python and a few programs, with what they load."""
    name, _, tag = TOOL_IMAGE.rpartition(":")
    with tempfile.TemporaryDirectory(dir=to.parent) as folder:
        root = Path(folder)
        root.chmod(0o755)
        _copy_programs(root)
        _copy_python(root)
        for place in ("tmp", "proc", "sys", "dev", "etc", "data"):
            (root / place).mkdir()
        (root / "etc" / "nsswitch.conf").write_text("hosts: files dns\n")
        (root / "etc" / "passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
        return image_tar(name, tag, [root], to=to, entrypoint=["/bin/sh"])


def _copy_programs(root: Path) -> None:
    programs = [found for name in _PROGRAMS if (found := shutil.which(name))]
    for program in programs:
        _copy(Path(program).resolve(), root / "usr" / "bin" / Path(program).name)
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / "usr" / name).mkdir(exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    _copy_libraries(root, programs)
    for folder in {path.parent for path in _libraries(programs)}:
        for name in _NAME_LIBRARIES:
            if (folder / name).exists():
                _copy(folder / name, _inside(root, folder / name))


def _copy_python(root: Path) -> None:
    program = _PYTHON.resolve()
    _copy(program, root / "usr" / "bin" / "python3")
    library = Path("/usr/lib") / program.name
    shutil.copytree(
        library, _inside(root, library), symlinks=False, ignore=shutil.ignore_patterns(*_LEFT_OUT)
    )
    _copy_libraries(root, [str(program), *map(str, library.glob("lib-dynload/*.so"))])


def _copy_libraries(root: Path, programs: Iterable[str]) -> None:
    for library in _libraries(programs):
        _copy(library, _inside(root, library))


def _libraries(programs: Iterable[str]) -> set[Path]:
    done = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False)
    words = done.stdout.split()
    return {Path(word) for word in words if word.startswith(("/lib", "/usr/lib")) and Path(word).exists()}


def _inside(root: Path, path: Path) -> Path:
    """Where a file goes: /lib leads to /usr/lib in the image, as on this machine."""
    whole = path if path.is_relative_to("/usr") else Path("/usr") / path.relative_to("/")
    return root / whole.relative_to("/")


def _copy(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, to)
    to.chmod(0o755)
