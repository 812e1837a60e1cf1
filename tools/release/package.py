"""The package as people install it: a wheel with the engine, for any machine of an architecture, and the sources.

The engine is linked against an old C library by zig, so it runs wherever glibc is at least as new. Nothing in it
depends on the machine that built it: no flags of somebody's environment, no features of its processor, and no path.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tools.release.commands import ReleaseError, output_of
from tools.release.sources import Sources

OLDEST_GLIBC = (2, 28)
"""That of RHEL 8, Debian 10 and Ubuntu 18.10."""
ARCHITECTURES = ("x86_64", "aarch64")
# What a build may know of the machine: where its tools are, and how they reach a registry.
_PASSED_ON = re.compile(
    r"PATH|HOME|USER|LANG|TMPDIR|CARGO_HOME|RUSTUP_\w+|XDG_CACHE_HOME|\w*_proxy|\w*_PROXY|SSL_\w+"
)
_PASSED_ON_OF_CARGO = re.compile(r"CARGO_(REGISTR|NET|HTTP|SOURCE)\w+")
_MODULE = "headrace/_native.abi3.so"


def lacks(architecture: str) -> str | None:
    """What this machine lacks to build for an architecture, and how to get it; nothing where it can."""
    target = _target(architecture)
    folder = Path(output_of(["rustc", "--print", "sysroot"], folder=Path.cwd()).strip())
    if (folder / "lib" / "rustlib" / target / "lib").is_dir():
        return None
    return f"Rust's standard library for {target}: rustup target add {target}"


def build_wheel(sources: Sources, architecture: str, build_folder: Path, to: Path) -> Path:
    """The wheel of an architecture in the folder `to`, checked. `build_folder` keeps compiled crates from one release
    to the next.
    """
    before = set(to.glob("*.whl"))
    command = ["maturin", "build", "--release", "--locked", "--zig", "--target", _target(architecture)]
    command += ["--compatibility", f"manylinux_{OLDEST_GLIBC[0]}_{OLDEST_GLIBC[1]}", "--out", str(to)]
    environment = _environment(os.environ, sources, build_folder)
    output_of(command, folder=sources.folder, environment=environment)
    (wheel,) = set(to.glob("*.whl")) - before
    check_wheel(wheel, private=[sources.folder, build_folder, Path(environment["CARGO_HOME"])])
    return wheel


def build_sdist(sources: Sources, to: Path) -> Path:
    """The sources as pip builds them. They need Rust, and the crates that Cargo.lock names."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(sources.committed_s)}
    output_of(["maturin", "sdist", "--out", str(to)], folder=sources.folder, environment=environment)
    (sdist,) = to.glob(f"headrace-{sources.version}.tar.gz")
    return sdist


def check_wheel(wheel: Path, *, private: list[Path]) -> None:
    """Raises `ReleaseError` for a wheel that needs a newer C library than it says, or that names folders of the machine
    that built it.
    """
    told = output_of(["auditwheel", "show", str(wheel)], folder=wheel.parent)
    if (needed := needed_glibc(told)) > OLDEST_GLIBC:
        raise ReleaseError(f"{wheel.name} needs glibc {needed[0]}.{needed[1]}:\n{told}")
    content = native_module(wheel)
    found = [str(path) for path in private if os.fsencode(path) in content]
    if found:
        raise ReleaseError(f"the engine in {wheel.name} names folders of this machine: {', '.join(found)}")


def needed_glibc(told: str) -> tuple[int, int]:
    """The C library that a wheel needs, as auditwheel tells it."""
    match = re.search(r'platform\s+tag:\s+"manylinux_(\d+)_(\d+)_\w+"', told)
    if match is None:
        raise ReleaseError(f"auditwheel knows no manylinux tag for this wheel:\n{told}")
    return int(match[1]), int(match[2])


def native_module(wheel: Path) -> bytes:
    """The engine in a wheel."""
    with zipfile.ZipFile(wheel) as content:
        return content.read(_MODULE)


def _target(architecture: str) -> str:
    return f"{architecture}-unknown-linux-gnu"


def _environment(own: Mapping[str, str], sources: Sources, build_folder: Path) -> dict[str, str]:
    """Variables of a build: of the own ones those alone that say where tools and registries are."""
    passed_on = {
        name: value
        for name, value in own.items()
        if _PASSED_ON.fullmatch(name) or _PASSED_ON_OF_CARGO.fullmatch(name)
    }
    crates = passed_on.get("CARGO_HOME") or str(Path.home() / ".cargo")
    # Members of the workspace are named by their paths in it; crates, and what build scripts write, by whole paths.
    flags = [f"--remap-path-prefix={crates}=/cargo", f"--remap-path-prefix={build_folder}=/target"]
    return {
        **passed_on,
        "CARGO_HOME": crates,
        # Takes the place of all flags that a configuration file names, such as target-cpu=native.
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "CARGO_TARGET_DIR": str(build_folder),
        "CARGO_INCREMENTAL": "0",
        # Names of functions stay, for backtraces; lines, and with them paths, go.
        "CARGO_PROFILE_RELEASE_STRIP": "debuginfo",
        "SOURCE_DATE_EPOCH": str(sources.committed_s),
        "LC_ALL": "C.UTF-8",
    }
