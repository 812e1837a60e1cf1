"""The settings of an operator at its start."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.plan.policy import Policy


@dataclass(frozen=True, slots=True)
class Image:
    """An image that pods are made of."""

    name: str
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """The operator's own place, and what it gives to the pods that it makes.

    `node_folder` is the folder of each node below which mounts and states lie; `local_folders` are those that datasets
    may read, by `local:///FOLDER`; `policy` is what else those may ask for who declare datasets.
    With `machine_credentials` a bucket that a dataset names no keys for is read by those of the node.
    """

    namespace: str
    identity: str
    engine: Image
    node_folder: str = "/var/lib/headrace"
    log_level: str = "info"
    log_format: str = "json"
    lease: str = "headrace-operator"
    health_port: int = 8080
    local_folders: tuple[str, ...] = ()
    policy: Policy = field(default_factory=Policy)
    machine_credentials: bool = False
