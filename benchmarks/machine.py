"""The machine: what it is, its page cache, and the memory of processes. A number without these is not quoted."""

from __future__ import annotations

import contextlib
import mmap
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

DROP_CACHES = Path("/proc/sys/vm/drop_caches")
FEW_BYTES = 512 << 20
"""What a second of random reads, or the names of a large directory take."""
CACHES = 3
"""How often a file read once may lie in memory: in the pages of a cache's file, in those of a mount, and on the way."""


@dataclass(frozen=True)
class Facts:
    """What a reader needs to judge the figures. No names of hosts or folders."""

    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    system: str
    python: str
    file_system: str
    commit: str
    fio: str
    user: str

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def machine_facts(folder: Path) -> Facts:
    """The facts now; `folder` is where the data lies."""
    return Facts(
        cpu=_first_match(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo")),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        kernel=platform.release(),
        system=_first_match(r'PRETTY_NAME="(.+)"', Path("/etc/os-release")),
        python=sys.version.split()[0],
        file_system=_output("findmnt", "--noheadings", "--output", "FSTYPE", "--target", str(folder)),
        commit=_output("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"),
        fio=_output("fio", "--version"),
        user="root" if os.geteuid() == 0 else "not root",
    )


def can_drop_caches() -> bool:
    """Whether the page cache can be made cold here (root, and /proc/sys writable)."""
    return os.access(DROP_CACHES, os.W_OK)


def drop_caches(memory_bytes: int = FEW_BYTES) -> bool:
    """Empties page cache, dentries and inodes of the whole machine; False when the rights are missing.

    What is not written yet stays: whoever wrote much calls `os.sync()` once before. So much memory is there then as
    what follows needs: of a file that is read, `CACHES` times its size.
    """
    if not can_drop_caches():
        return False
    DROP_CACHES.write_text("3\n")
    touch_memory(memory_bytes)
    return True


def touch_memory(size_bytes: int) -> None:
    """Has the machine's host give it so much memory, half of what is free at most, and gives it back.

    A virtual machine whose free pages go back to its host after a second or two pays for each when it is used next: the
    same cold read of a gibibyte took 0.1 or 2 s of processor a GB. In huge pages: the kernel hands out just these next.
    """
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size = min(size_bytes, available // 2)
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for offset in range(0, size, mmap.PAGESIZE):
            memory[offset] = 1


@dataclass(frozen=True)
class Memory:
    """Memory of some processes together, in bytes."""

    resident: int
    anonymous: int
    """The part on heaps and stacks; the rest is mapped files, which the kernel may drop."""


def memory_of(pids: Iterable[int]) -> Memory:
    """The sum over the processes that still live."""
    resident = anonymous = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            resident += _kibibytes(status, "VmRSS")
            anonymous += _kibibytes(status, "RssAnon")
    return Memory(resident << 10, anonymous << 10)


def _kibibytes(status: str, name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
    return int(match[1]) if match else 0


def _first_match(pattern: str, path: Path) -> str:
    try:
        match = re.search(pattern, path.read_text())
    except OSError:
        return "unknown"
    return match[1].strip() if match else "unknown"


def _output(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return "not installed"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"
