"""The image of the process that holds the namespaces of a pod, built here: no registry is asked."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from headrace.testing.kubernetes.images import image_tar
from headrace.testing.kubernetes.node_files import PAUSE_IMAGE

_SOURCE = Path(__file__).with_name("pause.c")


def pause_image(to: Path) -> Path:
    """The archive of the image `PAUSE_IMAGE`, with one static program."""
    name, _, tag = PAUSE_IMAGE.rpartition(":")
    with tempfile.TemporaryDirectory() as folder:
        command = ["cc", "-static", "-Os", "-s", "-o", str(Path(folder) / "pause"), str(_SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the image of pods cannot be built: {done.stderr.strip()}")
        Path(folder).chmod(0o755)
        return image_tar(name, tag, [Path(folder)], to=to, entrypoint=["/pause"])
