"""What a person has who follows the documents: their files, storage with data in it, and a command line."""

from __future__ import annotations

import random
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from printed import AGE, check, rows_of

from headrace.testing.buckets import put_object
from headrace.testing.nfs_server import NfsServer
from headrace.testing.oss_objects import OssBucket
from headrace.testing.oss_server import OssServer
from headrace.testing.s3_server import S3Server

PRINTED = Path(__file__).parent.parent / "unit" / "api" / "seeds"
LABEL = "aliyun.accelerator/nvidia_name=Tesla-V100-SXM2-16GB"
"""What the documents' nodes are labelled with."""
NODES = 4
DEADLINE_S = 180.0
FILES = {
    f"train/n{number:08}/part-{number}.bin": random.Random(number).randbytes(300_000 + number)
    for number in range(6)
}


def fill_oss(server: OssServer) -> None:
    """The files in a folder of a bucket, and a bucket of files alone."""
    for name, prefix in (("imagenet-bucket", "imagenet/"), ("imagenet-files", "")):
        server.buckets[name] = OssBucket()
        for key, content in FILES.items():
            server.buckets[name].put(prefix + key, content)


def fill_s3(server: S3Server) -> None:
    """The files in a folder of a bucket."""
    for key, content in FILES.items():
        put_object(server.bucket_folder("imagenet-bucket"), f"imagenet/{key}", content)


def fill_nfs(server: NfsServer) -> None:
    """The files in a folder of the export."""
    for name, content in FILES.items():
        path = server.export / "imagenet" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


class Desk(ABC):
    """Where a person sits: a command line, and a folder for files."""

    newer: Mapping[str, str] = {}
    """Columns of volumes and claims that a kubectl has by now, and had not when the documents were written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def run(self, *words: str) -> str:
        """What a command prints, which must succeed."""

    @abstractmethod
    def read(self, dataset: str, folder: str) -> None:
        """Reads all files on every node, and compares them."""

    def delete(self, dataset: str) -> None:
        """Deletes a dataset, in the words of the documents if the command line takes them."""
        self.say(f"delete dataset {dataset}")

    @abstractmethod
    def expect_nothing(self, dataset: str) -> None:
        """Fails where anything of a dataset that was deleted is left."""

    def write(self, file: str, printed: str, **words: str) -> None:
        """A file as a document prints it, with what a person fills in."""
        text = (PRINTED / printed).read_text(encoding="utf-8")
        for before, after in words.items():
            assert before in text
            text = text.replace(before, after)
        (self.folder / file).write_text(text)

    def say(self, line: str) -> str:
        """What a command of a document prints."""
        return self.run(
            *(str(self.folder / word) if word.endswith(".yaml") else word for word in shlex.split(line))
        )

    def tables(self, line: str) -> list[list[dict[str, str]]]:
        """The tables that a command prints."""
        return [rows_of(text) for text in self.say(line).split("\n\n")]

    def wait_until_ready(self, kind: str, name: str) -> None:
        """As a person who looks again and again."""
        self.say(f"wait --for=jsonpath={{.status.phase}}=Bound dataset/{name} --timeout 180s")
        for title in ("MASTER PHASE", "WORKER PHASE", "FUSE PHASE"):
            self.wait_until(f"get {kind} {name}", title, "Ready")

    def wait_until(self, line: str, title: str, wanted: str) -> None:
        """Until the first row of a table has this word."""
        deadline = time.monotonic() + DEADLINE_S
        while (row := self.tables(line)[0][0])[title] != wanted:
            assert time.monotonic() < deadline, row
            time.sleep(0.2)

    def check_volumes(self, *expected: dict[str, str]) -> None:
        """That `get pv,pvc` prints these and no others; each of `_volume`."""
        for each in expected:
            # Kubernetes binds them in its own time.
            self.wait_until(f"get pvc {each['name']}", "STATUS", "Bound")
        volumes, claims = self.tables("get pv,pvc")
        check(volumes, *(self._volume(**each) for each in expected))
        check(claims, *(self._claim(**each) for each in expected))

    def _volume(self, name: str, capacity: str, modes: str, storage: str) -> dict[str, str]:
        return {
            "NAME": f"persistentvolume/{name}",
            **{"CAPACITY": capacity, "ACCESS MODES": modes, "RECLAIM POLICY": "Retain", "STATUS": "Bound"},
            **{"CLAIM": f"default/{name}", "STORAGECLASS": storage, **self.newer, "REASON": "", "AGE": AGE},
        }

    def _claim(self, name: str, capacity: str, modes: str, storage: str) -> dict[str, str]:
        return {
            "NAME": f"persistentvolumeclaim/{name}",
            **{"STATUS": "Bound", "VOLUME": name, "CAPACITY": capacity, "ACCESS MODES": modes},
            **{"STORAGECLASS": storage, **self.newer, "AGE": AGE},
        }


def volume(name: str) -> dict[str, str]:
    """A dataset's volume and claim, as the documents print them."""
    return {"name": name, "capacity": "100Gi", "modes": "RWX", "storage": ""}


NFS_VOLUME = {"name": "nfs-imagenet", "capacity": "150Gi", "modes": "ROX", "storage": "nfs"}
