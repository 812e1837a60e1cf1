"""More files open at once than a mount may have open itself: what is cached is still read from the cache.

There are ten thousand of them in tests/soak.
"""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path

import pytest

from .harness import Shell
from .survival import shell_without_server

FILES = 160
LIMIT = 64
SIZE = 300_000


def _origin_bytes(shell: Shell, mountpoint: Path) -> int:
    return int(shell.status(mountpoint)["reads"]["origin_bytes"])


@pytest.mark.parametrize("mode", ["passthrough", "classic"])
def test_cached_files_held_open_beyond_the_limit_are_not_read_from_the_origin(
    tmp_path: Path, mode: str
) -> None:
    if mode == "passthrough" and os.geteuid() != 0:
        pytest.skip("passthrough needs CAP_SYS_ADMIN; run as root")
    source, shell = tmp_path / "source", shell_without_server(tmp_path / "home")
    source.mkdir()
    contents = {f"{number:04}": random.Random(number).randbytes(SIZE) for number in range(FILES)}
    for name, content in contents.items():
        (source / name).write_bytes(content)
    settings = tmp_path / "config.toml"
    settings.write_text(f"[dataset]\ndescriptors = {LIMIT}\n")
    limited = Shell(shell.home, {**shell.environment, "HEADRACE_CONFIG": str(settings)})
    words = ("--mode", mode, "--block-size", "64Ki")
    with limited.mounted(str(source), tmp_path / "mnt", *words, cache=tmp_path / "cache") as mountpoint:
        limited.must("warm", mountpoint)
    # The next process has no file of the cache open yet.
    with limited.mounted(str(source), tmp_path / "mnt", *words, cache=tmp_path / "cache") as mountpoint:
        before = _origin_bytes(limited, mountpoint)
        with contextlib.ExitStack() as held:
            opened = {
                name: held.enter_context((mountpoint / name).open("rb", buffering=0)) for name in contents
            }
            for name, file in opened.items():
                assert file.read() == contents[name]
        assert _origin_bytes(limited, mountpoint) == before
