"""The upper layers of an image as tars: the locked Python packages, and Headrace itself above them."""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from headrace.testing.kubernetes.debian_root import PYTHON, made_once
from headrace.testing.kubernetes.images import folder_tar

SITE = f"usr/local/lib/python{PYTHON}/dist-packages"
"""Where Debian's Python looks for packages that are not Debian's."""
COMMAND = "usr/local/bin/headrace"
_RECIPE = 4  # grows when the lines below make other layers of the same inputs
_CHANGED_S = 0  # byte code does not ask for the times of files


def packages_tar(lock: Path, cache: Path) -> Path:
    """The packages of a lock file, each checked against its hash; made now if `cache` does not hold them."""
    key = hashlib.sha256(lock.read_bytes() + f"{PYTHON} {platform.machine()} {_RECIPE}".encode())
    tar = cache / f"packages-{key.hexdigest()[:16]}.tar"
    with made_once(tar) as making:
        if making:
            with tempfile.TemporaryDirectory(dir=cache, prefix=".packages-") as folder:
                _install(lock, Path(folder) / "root" / SITE)
                made = folder_tar(Path(folder) / "root", Path(folder) / "packages.tar", changed_s=_CHANGED_S)
                made.rename(tar)
    return tar


def headrace_tar(checkout: Path, to: Path, *, native: Path | None) -> Path:
    """The package of a checkout with the command `headrace`, and with the native module if one is given."""
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=".headrace-") as folder:
        root = Path(folder)
        script = checkout / "deploy" / "images" / "install_package.py"
        subprocess.run([sys.executable, str(script), str(checkout), str(root / SITE)], check=True)
        if native is not None:
            # A quarter of its size, and its functions keep their names.
            stripped = root / SITE / "headrace" / native.name
            subprocess.run(["strip", "--strip-debug", "-o", str(stripped), str(native)], check=True)
        _compile(root / SITE)
        command = root / COMMAND
        command.parent.mkdir(parents=True)
        command.write_text((checkout / "deploy" / "images" / "headrace").read_text())
        command.chmod(0o755)
        return folder_tar(root, to, changed_s=_CHANGED_S)


def sources_digest(checkout: Path) -> str:
    """Tells whether the layer of `headrace_tar` would be another one, but for the native module."""
    digest = hashlib.sha256(f"{_RECIPE}".encode())
    script = checkout / "deploy" / "images" / "install_package.py"
    for file in (checkout / "pyproject.toml", script, *_sources(checkout / "src" / "headrace")):
        digest.update(f"{file.relative_to(checkout)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _sources(package: Path) -> Iterator[Path]:
    """What people wrote of the package, without its tests' servers and whatever was built beside."""
    for path in sorted(package.rglob("*")):
        parts = path.relative_to(package).parts
        if path.is_file() and parts[0] != "testing" and "__pycache__" not in parts and path.suffix != ".so":
            yield path


def _install(lock: Path, site: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += [
        "--no-deps",
        "--require-hashes",
        "--only-binary",
        ":all:",
        "--no-compile",
        "--target",
        str(site),
    ]
    command += ["--implementation", "cp", "--python-version", PYTHON]
    command += [word for tag in _platforms() for word in ("--platform", tag)]
    done = subprocess.run([*command, "-r", str(lock)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"pip could not install {lock.name}:\n{_without_addresses(done.stderr[-2000:])}")
    shutil.rmtree(site / "bin", ignore_errors=True)
    _compile(site)


def _platforms() -> list[str]:
    """Wheels for the C library of the root or an older one, newest first."""
    machine = platform.machine()
    return [f"manylinux_2_{minor}_{machine}" for minor in range(36, 4, -1)] + [f"manylinux2014_{machine}"]


def _compile(site: Path) -> None:
    """Byte code that does not depend on the time of a file, if it can be made here."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" != PYTHON:
        return  # each process of a container compiles for itself then
    command = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    command += ["-s", str(site), "-p", f"/{SITE}", str(site)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _without_addresses(text: str) -> str:
    """An index may have a key in its address."""
    return re.sub(r"https?://\S+", "(address)", text)
