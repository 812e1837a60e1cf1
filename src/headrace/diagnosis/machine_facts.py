"""The facts of this machine about itself."""

from __future__ import annotations

import os
import platform
import resource
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from headrace.engine import native
from headrace.errors import EngineError
from headrace.settings.environment import Environment

_SYS_ADMIN = 1 << 21
_FUSE = Path("/dev/fuse")
_FUSE_CONFIGURATION = Path("/etc/fuse.conf")


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Everything that the checks of a machine go by. A text in the place of a fault is the system's word for it."""

    kernel: str
    processor: str
    is_root: bool
    has_sys_admin: bool
    fuse_fault: str | None
    fusermount: str | None
    is_fusermount_privileged: bool
    allows_other: bool
    file_systems: frozenset[str]
    open_files: int
    proxies: Mapping[str, str] = field(repr=False)
    python: str
    headrace: str
    engine: str | None
    engine_fault: str = ""
    is_debug_engine: bool = False


def gather(environment: Environment) -> MachineFacts:
    """The facts as they are now. Nothing is changed, and nobody is asked but the kernel."""
    fusermount = shutil.which("fusermount3", path=environment.get("PATH"))
    engine, engine_fault = _engine()
    return MachineFacts(
        kernel=platform.release(),
        processor=platform.machine(),
        is_root=os.geteuid() == 0,
        has_sys_admin=_has_sys_admin(),
        fuse_fault=_fuse_fault(),
        fusermount=fusermount,
        is_fusermount_privileged=fusermount is not None and _is_privileged(Path(fusermount)),
        allows_other=_allows_other(_FUSE_CONFIGURATION),
        file_systems=_file_systems(),
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        proxies=environment.proxies,
        python=platform.python_version(),
        headrace=metadata.version("headrace"),
        engine=engine,
        engine_fault=engine_fault,
        is_debug_engine=engine is not None and bool(native.load().is_debug_build()),
    )


def _has_sys_admin() -> bool:
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) & _SYS_ADMIN)
    return False


def _fuse_fault() -> str | None:
    try:
        os.close(os.open(_FUSE, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return error.strerror or str(error)
    return None


def _is_privileged(program: Path) -> bool:
    """Set-user-ID root; or with capabilities of a file instead, as some distributions have it."""
    status = program.stat()
    return bool(status.st_mode & 0o4000 and status.st_uid == 0) or "security.capability" in os.listxattr(
        program
    )


def _allows_other(file: Path) -> bool:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return any(line.strip() == "user_allow_other" for line in lines)


def _file_systems() -> frozenset[str]:
    """Those that the kernel has, or has a module for."""
    known = {line.split()[-1] for line in Path("/proc/filesystems").read_text(encoding="ascii").splitlines()}
    modules = Path("/lib/modules") / platform.release() / "modules.dep"
    try:
        text = modules.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset(known)
    return frozenset(known | {name for name in ("erofs", "fuse") if f"/{name}.ko" in text})


def _engine() -> tuple[str | None, str]:
    try:
        return native.version(), ""
    except EngineError as error:
        return None, error.message
