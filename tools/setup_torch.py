"""Gives the virtual environment the PyTorch that Debian built for the CPU, and nothing else of Debian's.

PyTorch's own wheels bring gigabytes of libraries for accelerators; the tests of `headrace.client.torch` need none of
them. A folder of links to PyTorch and to the few modules that it imports stands at the end of `sys.path`, so that it
can shadow nothing that the environment has itself.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

DEBIAN_PACKAGES = Path("/usr/lib/python3/dist-packages")
MODULES = ("torch", "torchgen", "functorch")


def main() -> int:
    if not (DEBIAN_PACKAGES / "torch").is_dir():
        sys.stderr.write("setup: no python3-torch here; the tests of the PyTorch loaders will be skipped\n")
        return 0
    site_packages = Path(sysconfig.get_paths()["purelib"])
    links = Path(sys.prefix) / "debian-torch"
    links.mkdir(exist_ok=True)
    for name in MODULES:
        target = DEBIAN_PACKAGES / name
        link = links / name
        if target.exists() and not link.exists():
            link.symlink_to(target)
    (site_packages / "debian-torch.pth").write_text(f"{links}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
