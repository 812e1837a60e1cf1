"""The command `arena` on a real cluster, and what a test looks at there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets_on_kubernetes import Bucket, bound_dataset, namespace_of, runtime, served_bucket

from headrace.testing.kubernetes.build_images import CHECKOUT
from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl
from headrace.testing.kubernetes.programs import program_folder
from headrace.testing.kubernetes.training import JOB_IMAGE, job_image

GREETING = "a, 'b' \"c\" # d: $HOME $(id) ü\nsecond line"
"""What no shell and no template may touch."""

READ_EVERYTHING = """
import hashlib, os
whole = hashlib.sha256()
for folder, folders, names in os.walk("/data"):
    folders.sort()
    for name in sorted(names):
        path = os.path.join(folder, name)
        whole.update(os.path.relpath(path, "/data").encode())
        whole.update(open(path, "rb").read())
digest = whole.hexdigest()
"""
"""A program's first part: the digest of all files of the dataset, as `Bucket.digest` has it."""

READ_AS_RANK = (
    READ_EVERYTHING
    + """
import sys
rank, host = os.environ["OMPI_COMM_WORLD_RANK"], os.uname().nodename
sys.stdout.write(f"rank {rank} on {host} read {digest} {os.environ['GREETING']!r}\\n")
"""
)
"""What each rank of MPI runs: it says who it is, what it read, and what it was told."""


@dataclass(frozen=True)
class JobOperator:
    """An operator of Kubeflow, as a test gets it."""

    images: Callable[[Path], Iterable[Path]]
    """Makes its images in a folder."""
    install: Callable[[Kubectl], None]
    uninstall: Callable[[Kubectl], None]


@contextmanager
def operator_on(cluster: Cluster, operator: JobOperator) -> Iterator[None]:
    """The operator on a cluster, and the image of jobs on all nodes."""
    folder = CHECKOUT / ".cache" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    for image in (job_image(folder), *operator.images(folder)):
        cluster.load_image(image)
    operator.install(cluster.kubectl)
    yield
    operator.uninstall(cluster.kubectl)


@contextmanager
def bucket_for_jobs(cluster: Cluster, folder: Path) -> Iterator[Bucket]:
    """A few files that jobs read."""
    with served_bucket(cluster.host_address, folder) as made:
        made.fill(12, 100_000)
        yield made


@contextmanager
def arena_on(kubectl: Kubectl, word: str, bucket: Bucket, kind: str = "mpi") -> Iterator[Arena]:
    """A namespace with a dataset that nobody has read, for jobs of a kind."""
    with (
        namespace_of(kubectl, word) as namespace,
        bound_dataset(kubectl, namespace, bucket.secret(), bucket.dataset(), runtime()),
    ):
        yield Arena(kubectl, namespace, kind)


class Arena:
    """The command `arena`, for one namespace of the cluster. Jobs that it submits are of `kind`, unless one says so."""

    def __init__(self, kubectl: Kubectl, namespace: str, kind: str = "mpi") -> None:
        self.kubectl, self.namespace, self.kind = kubectl, namespace, kind

    def run(self, *words: str, timeout_s: float = 330) -> subprocess.CompletedProcess[str]:
        """What it says and its exit code."""
        command = [sys.executable, "-m", "headrace.cli.arena.main", *words]
        path = f"{program_folder()}:{os.environ['PATH']}"
        environment = os.environ | {"KUBECONFIG": str(self.kubectl.kubeconfig), "PATH": path}
        environment |= {"HEADRACE_JOBS_BACKEND": "kubernetes"}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )

    def __call__(self, verb: str, *words: str) -> str:
        """What it prints; it must succeed."""
        done = self.run(verb, "-n", self.namespace, *words)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def submit(self, name: str, *words: str, kind: str = "") -> str:
        """Submits a job of two workers that uses the dataset."""
        shape = ("--name", name, "--workers=2", "--data", "imagenet:/data")
        image = ("--image", JOB_IMAGE, "--image-pull-policy", "Never", "--working-dir", "/tmp")
        done = self.run("submit", kind or self.kind, "-n", self.namespace, *shape, *image, *words)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def wait_for_end(self, name: str, timeout: str = "300s") -> int:
        """What `arena wait` answers."""
        done = self.run("wait", "-n", self.namespace, name, "--timeout", timeout)
        assert done.returncode in (0, 1), done.stderr + self("get", name, "-o", "json")
        return done.returncode

    def job(self, name: str) -> dict[str, Any]:
        """`arena get -o json`."""
        shown: dict[str, Any] = json.loads(self("get", name, "-o", "json"))
        return shown

    def until(self, name: str, status: str) -> dict[str, Any]:
        """The job once it has this status."""
        seen: dict[str, Any] = {}

        def is_so() -> bool:
            seen.update(self.job(name))
            return bool(seen["status"] == status)

        try:
            self.kubectl.wait(is_so, f"{name} {status}")
        except TimeoutError as error:
            error.add_note(json.dumps(seen, indent=1))
            raise
        return seen

    def pods(self) -> list[dict[str, Any]]:
        """The pods of jobs that are there."""
        return list(self.kubectl.get("-n", self.namespace, "pods", "-l", "headrace.io/job")["items"])

    def holders(self) -> list[str]:
        """Those of them that hold the claim."""
        return [
            each["metadata"]["name"]
            for each in self.pods()
            for volume in each["spec"]["volumes"]
            if volume.get("persistentVolumeClaim")
        ]

    def delete(self, name: str) -> str:
        """What `arena delete` says. Returns once nothing is left of what was made for the job."""
        said = self("delete", name)
        self.kubectl.wait(lambda: self.left(name) == [], f"what was made for {name} to go")
        return said

    def left(self, name: str) -> list[str]:
        """What there is for a job beside its object."""
        served = self.kubectl("api-resources", "--api-group=kubeflow.org", "-o", "name").split()
        kinds = ",".join((*served, "configmaps", "secrets", "pods", "services", "jobs"))
        listed = self.kubectl("-n", self.namespace, "get", kinds, "-o", "name").split()
        return [each for each in listed if each.partition("/")[2].startswith(name)]

    def created_strictly(self, kind: str, folder: Path, *words: str) -> str:
        """What the API server says to everything that a submission with these words and many others would write.

        It looks strictly, for fields that the operators' kinds do not know, and creates nothing.
        """
        file = folder / "settings.yaml"
        file.write_text("a: 1\n")
        more = (
            "-e",
            "API_TOKEN=hush-hush",
            "--config-file",
            f"{file}:/etc/settings.yaml",
            "--toleration",
            "all",
        )
        base = ("--name", f"seen-{kind}", "--image", JOB_IMAGE, "--workers=2", "--data", "imagenet:/data")
        last = ("--dry-run", "-o", "json", "echo", "$(x) it's")
        done = self.run("submit", kind, "-n", self.namespace, *base, *more, *words, *last)
        assert done.returncode == 0, done.stderr
        assert "hush-hush" not in done.stdout
        strictly = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
        return self.kubectl("-n", self.namespace, *strictly, stdin=done.stdout)
