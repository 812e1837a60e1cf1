"""The wheel of a release: what its build may know of the machine, and what is refused of a finished one."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from tools.release import package
from tools.release.commands import ReleaseError
from tools.release.sources import Sources

SOURCES = Sources(Path("/sources"), "0" * 40, 1_700_000_000, "1.2.3")
TOLD = """
headrace-1.2.3-cp311-abi3-manylinux_2_28_x86_64.whl is consistent with the
following platform tag: "manylinux_2_{minor}_x86_64".
"""


def test_nothing_of_somebodys_environment_changes_the_engine() -> None:
    own = {
        "PATH": "/bin",
        "HOME": "/home/somebody",
        "RUSTFLAGS": "-C target-cpu=native",
        "CARGO_BUILD_RUSTFLAGS": "-C target-cpu=native",
        "CARGO_PROFILE_RELEASE_LTO": "off",
        "CFLAGS": "-march=native",
        "RUSTC_WRAPPER": "sccache",
        "https_proxy": "http://proxy:3128",
        "CARGO_REGISTRIES_CRATES_IO_PROTOCOL": "sparse",
    }
    made = package._environment(own, SOURCES, Path("/target"))
    assert "native" not in str(made)
    assert not {"RUSTFLAGS", "CFLAGS", "RUSTC_WRAPPER", "CARGO_PROFILE_RELEASE_LTO"} & set(made)
    assert made["https_proxy"] == "http://proxy:3128"
    assert made["CARGO_REGISTRIES_CRATES_IO_PROTOCOL"] == "sparse"
    assert made["SOURCE_DATE_EPOCH"] == "1700000000"


@pytest.mark.parametrize(("minor", "needed"), [("17", (2, 17)), ("28", (2, 28)), ("34", (2, 34))])
def test_the_c_library_that_a_wheel_needs_is_read(minor: str, needed: tuple[int, int]) -> None:
    assert package.needed_glibc(TOLD.format(minor=minor)) == needed


def test_a_wheel_for_no_known_machine_is_refused() -> None:
    with pytest.raises(ReleaseError, match="no manylinux tag"):
        package.needed_glibc('is consistent with the following platform tag: "linux_x86_64".')


def _wheel(folder: Path, module: bytes) -> Path:
    path = folder / "headrace-1.2.3-cp311-abi3-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(path, "w") as content:
        content.writestr("headrace/_native.abi3.so", module)
    return path


@pytest.mark.parametrize(
    ("module", "minor", "fault"),
    [
        (b"\0/cargo/registry/src/x.rs\0", "28", None),
        (b"\0/home/somebody/.cargo/registry/src/x.rs\0", "28", "names folders of this machine"),
        (b"", "34", "needs glibc 2.34"),
    ],
)
def test_a_wheel_that_tells_of_its_machine_or_needs_a_newer_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: bytes, minor: str, fault: str | None
) -> None:
    # In the place of auditwheel, which is not installed beside the tests.
    monkeypatch.setattr(package, "output_of", lambda *_, **__: TOLD.format(minor=minor))
    wheel = _wheel(tmp_path, module)
    private = [Path("/home/somebody/.cargo")]
    if fault is None:
        package.check_wheel(wheel, private=private)
    else:
        with pytest.raises(ReleaseError, match=fault):
            package.check_wheel(wheel, private=private)
