"""Headrace installed from a wheel where there is Python and nothing to build with: no Rust and no compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from headrace.provenance import COMMIT_FILE

CHECKOUT = Path(__file__).parents[2]
DIST = CHECKOUT / "dist"
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# By which something could be built, and other Pythons, which might bring their packages along.
_HIDDEN = re.compile(
    r"(.*-)?(gcc|g\+\+|cc|c\+\+|cpp|ld|as|clang|clang\+\+|tcc|gold|lld)([.-].*)?"
    r"|cargo.*|rust.*|make|gmake|cmake|ninja|zig|maturin|python.*|pip.*|headrace|arena"
)
_PROBE = "import ensurepip, sqlite3, ssl, sys; print('%d.%d' % sys.version_info[:2])"


def built_wheel() -> Path | None:
    """The wheel of `dist` for this machine; nothing where none was built."""
    found = sorted(DIST.glob(f"headrace-*_{os.uname().machine}.whl"))
    return found[-1] if found else None


def commit_of(wheel: Path) -> str:
    """The commit that a wheel says it was built from."""
    with zipfile.ZipFile(wheel) as content:
        return content.read(f"headrace/{COMMIT_FILE}").decode().strip()


def python_of(version: str) -> Path | None:
    """An interpreter of a version, such as 3.12, that is on this machine and whole."""
    candidates = [Path(folder) / f"python{version}" for folder in _FOLDERS]
    candidates += sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    candidates += sorted(Path.home().glob(f".local/share/uv/python/cpython-{version}.*/bin/python{version}"))
    return next((each for each in candidates if _is_whole(each, version)), None)


def _is_whole(python: Path, version: str) -> bool:
    if not python.exists():
        return False
    done = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version


@dataclass(frozen=True)
class CleanInstall:
    """An environment with Headrace, and a home, in which nothing else is."""

    folder: Path
    variables: dict[str, str]

    def run(self, *words: str, code: int = 0, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
        """Runs a program of the environment, and checks its exit code."""
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == code, (
            f"{words}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
        return done

    def python(self, code: str) -> str:
        """What a program in Python writes."""
        return self.run("python", "-c", code).stdout

    def install(self, *requirements: str) -> None:
        """Installs packages, never from sources."""
        self.run(
            "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--only-binary",
            ":all:",
            *requirements,
            timeout_s=900,
        )

    def finds(self, program: str) -> str | None:
        """The place of a program, as this environment looks for it."""
        return shutil.which(program, path=self.variables["PATH"])


def clean_install(python: Path, wheel: Path, folder: Path) -> CleanInstall:
    """The wheel in a new environment of this Python."""
    programs, environment, home = folder / "programs", folder / "environment", folder / "home"
    _link_programs(programs)
    home.mkdir()
    subprocess.run([python, "-m", "venv", environment], check=True, capture_output=True)
    kept = (
        "LANG",
        "PIP_INDEX_URL",
        "PIP_CONFIG_FILE",
        "PIP_CACHE_DIR",
        "SSL_CERT_FILE",
        "https_proxy",
        "http_proxy",
        "no_proxy",
    )
    variables = {name: os.environ[name] for name in kept if name in os.environ}
    variables |= {
        "PATH": f"{environment / 'bin'}:{programs}",
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(_private(folder / "run")),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    made = CleanInstall(folder, variables)
    made.install(str(wheel))
    return made


def _link_programs(to: Path) -> None:
    """What a machine has for people who run programs, under its names; nothing by which programs are made."""
    to.mkdir(parents=True)
    for folder in map(Path, _FOLDERS):
        for program in folder.iterdir() if folder.is_dir() else ():
            link = to / program.name
            if not _HIDDEN.fullmatch(program.name) and not link.is_symlink():
                link.symlink_to(program)


def _private(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    return folder
