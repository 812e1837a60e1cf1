"""A Debian root with Python as one tar: what every image of the test cluster stands on.

Made by debootstrap from the mirror that this machine's apt uses, and kept in a cache folder: it is the same for all
checkouts, and takes longest.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headrace.testing.kubernetes.images import folder_tar

SUITE = "bookworm"
PYTHON = "3.11"
"""The Python of the suite, which the packages above the root are chosen for."""
PACKAGES = ("ca-certificates", "fuse3", "python3", "tini", "tzdata")
# What no container needs: the runtime brings its own devices, and nobody installs or reads manuals in there.
_EMPTIED = (
    "dev",
    "proc",
    "sys",
    "tmp",
    "var/cache/apt",
    "var/lib/apt/lists",
    "var/log",
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
)
_RECIPE = 1  # grows when the lines below make another root of the same inputs


def root_tar(cache: Path, packages: Sequence[str] = PACKAGES) -> Path:
    """The tar of such a root in the folder `cache`, made now if this one is not there (a minute or two)."""
    inputs = {"suite": SUITE, "packages": packages, "emptied": _EMPTIED, "recipe": _RECIPE}
    key = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]
    tar = cache / f"debian-{SUITE}-{key}.tar"
    with made_once(tar) as making:
        if making:
            _make(tar, packages)
    return tar


@contextmanager
def made_once(path: Path) -> Iterator[bool]:
    """Says whether `path` is to be made; whoever comes meanwhile waits for it instead of making it again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not path.exists()


def _make(tar: Path, packages: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(dir=tar.parent, prefix=".debian-") as folder:
        root = Path(folder) / "root"
        _bootstrap(root, packages)
        for name in _EMPTIED:
            _empty(root / name)
        made = folder_tar(root, Path(folder) / "root.tar")
        made.rename(tar)


def _bootstrap(root: Path, packages: Sequence[str]) -> None:
    program = shutil.which("debootstrap", path="/usr/sbin:/sbin:/usr/local/sbin:/usr/bin")
    if program is None:
        raise RuntimeError("debootstrap is missing: make setup installs it")
    command = [program, "--variant=minbase", f"--include={','.join(packages)}", SUITE, str(root), *_mirror()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
        raise RuntimeError(f"debootstrap ended with {done.returncode}:\n{last}")


def _mirror() -> list[str]:
    """Where apt has the suite from on this machine; nothing when it does not know it: then debootstrap's own."""
    command = ["apt-get", "indextargets", "--format", "$(CODENAME) $(COMPONENT) $(REPO_URI)"]
    known = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    targets = (line.split() for line in known.splitlines())
    found = [words[2] for words in targets if words[:2] == [SUITE, "main"] and words[2].startswith("http")]
    return found[:1]


def _empty(folder: Path) -> None:
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
