"""Four virtual nodes, and the dataset on them: the commands and the YAML of the seeds."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiment.commands import Commands

DATASET = "imagenet"
# Seed 002, with an S3 server in the place of OSS.
DATASET_YAML = """\
apiVersion: v1
kind: Secret
metadata:
  name: storage-keys
stringData:
  aws.accessKeyId: {access_key_id}
  aws.secretKey: {secret_access_key}
---
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata:
  name: imagenet
spec:
  mounts:
  - mountPoint: s3://imagenet/
    name: imagenet
    options:
      alluxio.underfs.s3.endpoint: {endpoint}
      alluxio.underfs.s3.disable.dns.buckets: "true"
      aws.region: us-east-1
    encryptOptions:
    - name: aws.accessKeyId
      valueFrom:
        secretKeyRef:
          name: storage-keys
          key: aws.accessKeyId
    - name: aws.secretKey
      valueFrom:
        secretKeyRef:
          name: storage-keys
          key: aws.secretKey
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions:
        - key: aliyun.accelerator/nvidia_name
          operator: In
          values:
          - Tesla-V100-SXM2-16GB
---
apiVersion: data.fluid.io/v1alpha1
kind: AlluxioRuntime
metadata:
  name: imagenet
spec:
  replicas: {nodes}
  data:
    replicas: 1
  tieredstore:
    levels:
    - mediumtype: SSD
      path: {cache}
      quota: 8Gi
      high: "0.99"
      low: "0.8"
"""
LOAD_YAML = """\
apiVersion: data.fluid.io/v1alpha1
kind: DataLoad
metadata:
  name: warm
spec:
  dataset:
    name: imagenet
    namespace: default
"""
NODE_LABEL = "aliyun.accelerator/nvidia_name=Tesla-V100-SXM2-16GB"


@dataclass(frozen=True)
class Node:
    """A virtual node."""

    name: str
    prefix: tuple[str, ...]
    """What stands before a command that shall run in its network."""


@dataclass(frozen=True)
class Cluster:
    """The backend that is up."""

    commands: Commands
    work: Path
    nodes: tuple[Node, ...]


@contextlib.contextmanager
def up(commands: Commands, work: Path, *, nodes: int) -> Iterator[Cluster]:
    """`headrace up`, and `headrace down` at the end."""
    try:
        commands.run("headrace", "up", "--nodes", str(nodes), "--node-label", NODE_LABEL)
        yield Cluster(commands, work, _nodes(commands))
    finally:
        commands.run("headrace", "down")


@contextlib.contextmanager
def dataset(cluster: Cluster, **values: object) -> Iterator[None]:
    """The dataset with empty caches, ready; deleted at the end, with what it had cached. `values` fill the YAML."""
    file = _write_private(cluster.work / "dataset.yaml", DATASET_YAML.format(**values))
    cluster.commands.run("headrace", "apply", "-f", str(file))
    try:
        cluster.commands.run("headrace", "wait", "--for=condition=Ready", f"dataset/{DATASET}")
        yield
    finally:
        cluster.commands.run("headrace", "delete", "-f", str(file))


def load(cluster: Cluster) -> None:
    """Brings into the caches what they lack."""
    file = _write_private(cluster.work / "dataload.yaml", LOAD_YAML)
    cluster.commands.run("headrace", "create", "-f", str(file))
    try:
        cluster.commands.run(
            "headrace", "wait", "--for=jsonpath={.status.phase}=Complete", "dataload/warm", "--timeout", "10m",
            timeout_s=660,
        )  # fmt: skip
    finally:
        cluster.commands.run("headrace", "delete", "-f", str(file))


def cached_percentage(cluster: Cluster) -> str:
    """As `headrace get dataset` prints it."""
    path = "jsonpath={.status.cacheStates.cachedPercentage}"
    return cluster.commands.run("headrace", "get", "dataset", DATASET, "-o", path, show=False).strip()


def _nodes(commands: Commands) -> tuple[Node, ...]:
    status = json.loads(commands.run("headrace", "status", "--local", "--json", show=False))
    found = []
    for node in status["nodes"]:
        name = node.get("namespace")
        found.append(Node(node["name"], ("nsenter", f"--net=/run/netns/{name}") if name else ()))
    return tuple(found)


def _write_private(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path
