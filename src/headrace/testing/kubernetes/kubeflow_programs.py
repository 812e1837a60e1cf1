"""The operators of Kubeflow as they are built here (tools/install_kubeflow.sh), and images of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from headrace.testing.kubernetes.build_images import CHECKOUT, TAG
from headrace.testing.kubernetes.images import image_tar

MPI_OPERATOR = "mpi-operator"
TRAINING_OPERATOR = "training-operator"
_BUILDER = CHECKOUT / "tools" / "install_kubeflow.sh"


def operator_folder(operator: str) -> Path:
    """The folder of an operator and its manifests, built now if they are not there (a few minutes)."""
    done = subprocess.run(
        [_BUILDER, operator], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    if done.returncode != 0:
        raise RuntimeError(f"the {operator} cannot be built: {done.stderr.strip()}")
    return Path(done.stdout.strip())


def operator_image_name(operator: str) -> str:
    """The name of its image on the nodes."""
    return f"headrace/test-{operator}:{TAG}"


def operator_image(operator: str, folder: Path) -> Path:
    """The archive of an operator in this folder: one program without anything beside it."""
    built = operator_folder(operator)
    return program_image(operator, built / operator, folder / f"headrace-test-{built.name}.tar")


def program_image(name: str, program: Path, to: Path, below: tuple[Path, ...] = ()) -> Path:
    """The archive `to` of an image that runs a program; what was made before is used again.

    `below` are the layers that it needs under it.
    """
    if to.exists():
        return to
    with tempfile.TemporaryDirectory(dir=to.parent) as made:
        root = Path(made)
        root.chmod(0o755)
        shutil.copy(program, root / program.name)
        return image_tar(
            f"headrace/test-{name}", TAG, [*below, root], to=to, entrypoint=(f"/{program.name}",)
        )
