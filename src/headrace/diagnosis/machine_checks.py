"""The check that a machine can do what Headrace needs, and the hints at what would make it better. Pure: it decides by
facts alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from headrace.diagnosis.findings import Finding, fault, good, note
from headrace.diagnosis.machine_facts import MachineFacts

_LEAST_KERNEL = (5, 4)
_PASSTHROUGH_KERNEL = (6, 9)
_VIEW_KERNEL = (6, 15)
_FEW_FILES, _ENOUGH_FILES = 1024, 65_536


def check(facts: MachineFacts) -> Iterator[Finding]:
    """Every finding, in the order in which a person would look."""
    for each in _CHECKS:
        yield each(facts)


def kernel_version(release: str) -> tuple[int, int] | None:
    """`(6, 12)` of `6.12.9-amd64`; `None` of what is no release of Linux."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else None


def check_kernel(release: str) -> Finding:
    """The ways to serve files that a kernel has."""
    version = kernel_version(release)
    if version is None:
        return note("kernel", f"{release} is no version that can be told", "Linux 5.4 or later is needed")
    if version < _LEAST_KERNEL:
        return fault("kernel", f"Linux {release} is too old for mounts", "Linux 5.4 or later is needed")
    if version < _PASSTHROUGH_KERNEL:
        text = f"Linux {release} serves mounts, but cannot read cache files by itself"
        return note("kernel", text, "Linux 6.9 or later makes warm reads as fast as the disk (passthrough)")
    return good("kernel", f"Linux {release}")


def _kernel(facts: MachineFacts) -> Finding:
    return check_kernel(facts.kernel)


def _versions(facts: MachineFacts) -> Finding:
    told = f"headrace {facts.headrace}, Python {facts.python}, {facts.processor}"
    if facts.engine is None:
        return fault(
            "versions", f"{told}; {facts.engine_fault}", "install a wheel for this Python and machine"
        )
    if facts.engine != facts.headrace:
        text = f"{told}; but the engine is {facts.engine}"
        return fault("versions", text, "install both anew, from the same wheel")
    if facts.is_debug_engine:
        return note("versions", f"{told}; the engine is a debug build", "measure nothing with it: make build")
    return good("versions", told)


def _fuse(facts: MachineFacts) -> Finding:
    if facts.fuse_fault is None:
        return good("fuse", "/dev/fuse can be opened")
    if facts.fuse_fault == "No such file or directory":
        remedy = "modprobe fuse; in a container: hand /dev/fuse in (docker run --device /dev/fuse)"
        return fault("fuse", "there is no /dev/fuse", remedy)
    text = f"/dev/fuse cannot be opened: {facts.fuse_fault}"
    return fault("fuse", text, "chmod 666 /dev/fuse; in a container: allow the device and CAP_SYS_ADMIN")


def _fusermount(facts: MachineFacts) -> Finding:
    if facts.has_sys_admin:
        return good("mounting", "this user may mount without help")
    if facts.fusermount is None:
        return fault(
            "mounting", "there is no fusermount3, and this user may not mount", "install fuse3, or use root"
        )
    if not facts.is_fusermount_privileged:
        text = f"{facts.fusermount} has no rights of root"
        return fault(
            "mounting",
            text,
            f"chmod 4755 {facts.fusermount}; in a container: use its root with CAP_SYS_ADMIN",
        )
    if not facts.allows_other:
        return note(
            "mounting",
            "only this user will see the mounts",
            "user_allow_other in /etc/fuse.conf allows others",
        )
    return good("mounting", f"by {facts.fusermount}")


def _passthrough(facts: MachineFacts) -> Finding:
    version = kernel_version(facts.kernel)
    if version is None or version < _PASSTHROUGH_KERNEL:
        return note("passthrough", "the kernel has none", "")
    if not facts.has_sys_admin:
        text = "reads of this user's mounts go through the mount process"
        return note("passthrough", text, "mount as root: it needs CAP_SYS_ADMIN")
    return good("passthrough", "whole files are read by the kernel itself")


def _view(facts: MachineFacts) -> Finding:
    version = kernel_version(facts.kernel)
    if version is None or version < _VIEW_KERNEL:
        return note(
            "view", "there is no --mode view, which helps with many small files", "it needs Linux 6.15"
        )
    if "erofs" not in facts.file_systems:
        return note("view", "there is no --mode view: this kernel was built without EROFS", "modprobe erofs")
    if not facts.has_sys_admin:
        return note("view", "there is no --mode view for this user", "mount as root")
    return good("view", "--mode view can be used")


def _open_files(facts: MachineFacts) -> Finding:
    if facts.open_files < 0 or facts.open_files >= _ENOUGH_FILES:
        return good(
            "open files", "enough for any cache" if facts.open_files < 0 else f"up to {facts.open_files:,}"
        )
    text = f"a process may open {facts.open_files:,} files"
    remedy = "LimitNOFILE=1048576 of a service; `ulimit -Hn`, /etc/security/limits.conf for a login"
    if facts.open_files < _FEW_FILES:
        return fault("open files", f"{text}: too few for a cache that is read by many", remedy)
    return note("open files", f"{text}: large caches and many readers want more", remedy)


def _proxies(facts: MachineFacts) -> Finding:
    if not facts.proxies:
        return good("proxies", "none in the environment")
    named = ", ".join(f"{name}={_place(value)}" for name, value in sorted(facts.proxies.items()))
    return note("proxies", f"requests go by {named}", "name storage that is reached without one in NO_PROXY")


def _place(value: str) -> str:
    """The address of a proxy without the name and password that it may hold; hosts of `NO_PROXY` as they are."""
    if "@" not in value:
        return value
    parts = urlsplit(value if "://" in value else f"//{value}")
    return f"{parts.scheme or 'http'}://***@{parts.netloc.rpartition('@')[2]}"


_CHECKS: tuple[Callable[[MachineFacts], Finding], ...] = (
    _versions,
    _kernel,
    _fuse,
    _fusermount,
    _passthrough,
    _view,
    _open_files,
    _proxies,
)
