"""Files of a Debian package: those installed, else unpacked into a cache folder, without root."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path


def package_root(package: str, probe: str, *, cache: Path) -> Path:
    """The folder under which the package's files lie; "/" when it is installed.

    `probe` is one path of the package ("usr/share/…") by which its presence is told.
    """
    for root in (Path("/"), cache / package):
        if (root / probe).exists():
            return root
    _unpack(package, cache)
    if not (cache / package / probe).exists():
        raise FileNotFoundError(f"the Debian package {package} has no {probe}")
    return cache / package


def _unpack(package: str, cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        # Not as root's sandbox user, who may not write into our folder.
        command = ["apt-get", "-o", f"APT::Sandbox::User={Path(folder).owner()}", "download", "-qq", package]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        archives = list(Path(folder).glob("*.deb"))
        if done.returncode != 0 or not archives:
            hint = "run `apt-get update`, or install it by hand"
            raise RuntimeError(
                f"cannot download the Debian package {package}: {done.stderr.strip()} ({hint})"
            )
        unpacked = Path(folder) / package
        subprocess.run(["dpkg-deb", "-x", str(archives[0]), str(unpacked)], check=True)
        unpacked.rename(cache / package)
