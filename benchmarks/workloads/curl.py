"""What the storage itself costs a client: curl, which writes object after object into files, and nothing else."""

from __future__ import annotations

import resource
import shutil
import subprocess
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contenders import Source

GIGABYTE = 1e9


def processor_seconds_per_gigabyte(
    source: Source, keys: Sequence[str], folder: Path, *, limit_s: float
) -> float:
    """Fetches the objects into `folder`; OSError where curl is not there, or did not bring them."""
    if shutil.which("curl") is None:
        raise OSError("curl is not installed")
    before = _seconds_of_children()
    # Its configuration by the standard input: the keys are on no command line.
    done = subprocess.run(
        ["curl", "--silent", "--show-error", "--fail", "--config", "-"],
        input=_configuration(source, keys, folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=limit_s,
    )
    used = _seconds_of_children() - before
    if done.returncode != 0:
        raise OSError(f"curl failed: {done.stderr.strip()[-300:]}")
    size = sum(path.stat().st_size for path in folder.iterdir())
    return used / size * GIGABYTE


def _configuration(source: Source, keys: Sequence[str], folder: Path) -> str:
    pair = source.credentials
    lines = [
        f'user = "{pair.access_key_id}:{pair.secret_access_key}"',
        f'aws-sigv4 = "aws:amz:{source.region}:s3"',
        'header = "x-amz-content-sha256: UNSIGNED-PAYLOAD"',
    ]
    for number, key in enumerate(keys):
        url = f"{source.endpoint}/{source.bucket}/{urllib.parse.quote(key)}"
        lines += [f'url = "{url}"', f'output = "{folder / str(number)}"']
    return "\n".join(lines)


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
