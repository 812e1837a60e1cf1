"""What somebody does first with a Headrace that was just installed; each step fails by what it sees."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from clean_install import CleanInstall

from headrace.testing.buckets import put_object
from headrace.testing.s3_server import S3Server

CONTENT = {f"train/{number}.bin": hashlib.sha256(b"%d" % number).digest() * 20_000 for number in range(5)}
_DEADLINE_S = 120
_DATASET = """apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {{name: photos}}
spec:
  placement: Shared
  mounts: [{{mountPoint: "local://{folder}", name: photos}}]
---
apiVersion: data.fluid.io/v1alpha1
kind: AlluxioRuntime
metadata: {{name: photos}}
spec:
  replicas: 1
  tieredstore:
    levels: [{{mediumtype: SSD, path: "{cache}", quota: 64Mi}}]
"""


def filled(server: S3Server) -> dict[str, str]:
    """Fills the bucket `photos`; the variables by which Headrace finds the server."""
    for key, data in CONTENT.items():
        put_object(server.bucket_folder("photos"), key, data)
    return {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ACCESS_KEY_ID": server.credentials.access_key_id,
        "AWS_SECRET_ACCESS_KEY": server.credentials.secret_access_key,
        "AWS_REGION": server.region,
    }


def mount_read_and_unmount(here: CleanInstall) -> None:
    """A bucket is mounted, read through the kernel, seen in the status, and unmounted."""
    mountpoint = here.folder / "photos"
    mountpoint.mkdir(exist_ok=True)
    here.run("headrace", "mount", "s3://photos", str(mountpoint), "--cache", f"{here.folder / 'cache'}:1Gi")
    try:
        assert {key: (mountpoint / key).read_bytes() for key in CONTENT} == CONTENT
        (status,) = json.loads(here.run("headrace", "status", str(mountpoint), "--json").stdout)
        assert status["mountpoint"] == str(mountpoint)
        assert str(mountpoint) in here.run("headrace", "status").stdout
    finally:
        here.run("headrace", "unmount", str(mountpoint))
    assert list(mountpoint.iterdir()) == []


def read_by_the_sdk(here: CleanInstall) -> None:
    """The same bucket is read in Python."""
    program = (
        "import hashlib, headrace\n"
        f"with headrace.open_dataset('s3://photos', cache={str(here.folder / 'sdk-cache:1Gi')!r}) as data:\n"
        "    for path in sorted(data.files()):\n"
        "        print(path, hashlib.sha256(data.read(path)).hexdigest())\n"
    )
    told = dict(line.split() for line in here.python(program).splitlines())
    assert told == {key: hashlib.sha256(data).hexdigest() for key, data in CONTENT.items()}


def bring_up_and_train(here: CleanInstall) -> None:
    """A local backend comes up, a dataset is bound, a job reads it, and nothing is left."""
    folder = here.folder / "data"
    for key, data in CONTENT.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(data)
    declared = here.folder / "dataset.yaml"
    declared.write_text(_DATASET.format(folder=folder, cache=here.folder / "nodes"))
    here.run("headrace", "up", "--nodes", "2")
    try:
        here.run("headrace", "apply", "-f", str(declared))
        here.run(
            "headrace", "wait", "dataset/photos", "--for=condition=Ready", "--timeout", f"{_DEADLINE_S}s"
        )
        _train(here)
        here.run("headrace", "delete", "-f", str(declared))
    finally:
        here.run("headrace", "down")


def _train(here: CleanInstall) -> None:
    script = here.folder / "train.py"
    script.write_text(
        "import hashlib, pathlib\n"
        "for path in sorted(pathlib.Path('/data/photos').rglob('*.bin')):\n"
        "    print('read', path.name, hashlib.sha256(path.read_bytes()).hexdigest(), flush=True)\n"
    )
    submit = ["arena", "submit", "pytorch", "--name", "first", "--workers=1", "--data", "photos:/data/photos"]
    here.run(*submit, "--working-dir", str(here.folder), "--wait", "python", str(script))
    logs = here.run("arena", "logs", "first").stdout
    for key, data in CONTENT.items():
        assert f"read {Path(key).name} {hashlib.sha256(data).hexdigest()}" in logs
