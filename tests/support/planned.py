"""A world for the planner: it takes the steps of a plan as a backend would, and the planner sees what came of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.api.dataset import Dataset
from headrace.api.kinds import Runtime
from headrace.api.manifests import read_objects
from headrace.plan.declared import Declared
from headrace.plan.observed import ConsumerFacts, DataFacts, Node, Observed, RoleFacts, RoleState, SecretFacts
from headrace.plan.outcome import Plan
from headrace.plan.plan import plan
from headrace.plan.roles import Role, RoleKind

START = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
GPU = {"aliyun.accelerator/nvidia_name": "Tesla-V100-SXM2-16GB"}

SEED = """
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: imagenet, namespace: default, generation: 1}
spec:
  mounts:
    - mountPoint: oss://bucket/imagenet
      name: imagenet
      options: {fs.oss.endpoint: oss-cn-shanghai.aliyuncs.com}
      encryptOptions:
        - {name: fs.oss.accessKeyId, valueFrom: {secretKeyRef: {name: mysecret, key: fs.oss.accessKeyId}}}
        - {name: fs.oss.accessKeySecret, valueFrom: {secretKeyRef: {name: mysecret, key: fs.oss.accessKeySecret}}}
  nodeAffinity:
    required:
      nodeSelectorTerms:
        - matchExpressions:
            - {key: aliyun.accelerator/nvidia_name, operator: In, values: [Tesla-V100-SXM2-16GB]}
---
apiVersion: data.fluid.io/v1alpha1
kind: JindoRuntime
metadata: {name: imagenet, namespace: default, generation: 1, creationTimestamp: "2026-01-31T09:30:00Z"}
spec:
  replicas: 4
  tieredstore:
    levels:
      - {mediumtype: SSD, path: /var/lib/docker/jindo, quota: 180G, high: "0.99", low: "0.8"}
"""

MYSECRET = SecretFacts({"fs.oss.accessKeyId": "i1", "fs.oss.accessKeySecret": "s1"})


def mysecret(**digests: str) -> SecretFacts:
    """The seeds' Secret with other values: `id`, `secret`, or keys that nobody uses."""
    names = {"id": "fs.oss.accessKeyId", "secret": "fs.oss.accessKeySecret"}
    return SecretFacts(
        {**MYSECRET.digests, **{names.get(key, key): digest for key, digest in digests.items()}}
    )


def objects(text: str) -> tuple[Any, ...]:
    """The objects of a YAML text."""
    return tuple(read_objects(text, "test"))


def changed(thing: Any, **spec: Any) -> Any:
    """The object with another spec, as YAML would have it (camelCase), and one generation on."""
    content = thing.model_dump(by_alias=True, exclude_unset=True, mode="json")
    content["spec"] = content.get("spec", {}) | spec
    content["metadata"] = content["metadata"] | {"generation": (thing.metadata.generation or 0) + 1}
    return type(thing).model_validate(content)


def leaving(thing: Any, when: datetime = START) -> Any:
    """The object with its deletion asked for."""
    return thing.model_copy(
        update={"metadata": thing.metadata.model_copy(update={"deletion_timestamp": when})}
    )


def gpu_nodes(count: int) -> tuple[Node, ...]:
    """Nodes that the seeds' selector fits."""
    return tuple(Node(f"node-{number}", labels=GPU) for number in range(1, count + 1))


class World:
    """One dataset and its runtime, a few nodes, and processes that do what they are told, a pass later."""

    def __init__(
        self, dataset: Dataset | None, runtime: Runtime | None, nodes: tuple[Node, ...] = ()
    ) -> None:
        self.dataset, self.runtime = dataset, runtime
        self.references: dict[str, Dataset] = {}
        self.seen = Observed(nodes=nodes or gpu_nodes(4), secrets={"mysecret": MYSECRET})
        self.now = START
        self.data = DataFacts(files=1281167, size_bytes=154_264_490_567, snapshot_version=1)
        self.largest_quota_bytes = 1 << 60
        self.broken: dict[str, tuple[str, str]] = {}
        self.settings: dict[str, Role] = {}
        self.plans: list[Plan] = []

    @classmethod
    def of(cls, text: str = SEED, nodes: tuple[Node, ...] = ()) -> World:
        """The world of a YAML text."""
        found = {type(thing).__name__: thing for thing in objects(text)}
        runtime = next((thing for name, thing in found.items() if name.endswith("Runtime")), None)
        return cls(found.get("Dataset"), runtime, nodes)

    @property
    def declared(self) -> Declared:
        """The objects with their last status."""
        return Declared(self.dataset, self.runtime, self.references)

    def see(self, **facts: Any) -> None:
        """Changes what is observed."""
        self.seen = dataclasses.replace(self.seen, **facts)

    def plan(self) -> Plan:
        """A pass, without any consequence."""
        return plan(self.declared, self._observed(), self.now)

    def reconcile(self, seconds: float = 1.0) -> Plan:
        """A pass: status is written, steps are taken, and time passes."""
        made = self.plan()
        self.plans.append(made)
        self._write(made)
        self._take(made)
        self.now += timedelta(seconds=seconds)
        self._live()
        return made

    def settle(self, most: int = 60) -> Plan:
        """Passes until nothing more is to be done."""
        for _ in range(most):
            made = self.reconcile()
            if not made.steps and not self._moving() and self.plan().dataset_status == made.dataset_status:
                return made
        raise AssertionError(f"not settled after {most} passes: {self.plans[-1].steps}")

    def use(self, *uses: tuple[str, str]) -> None:
        """Programs use the volume: who, where."""
        self.see(users=tuple(ConsumerFacts(user, node) for user, node in uses))

    def facts(self, role_id: str) -> RoleFacts:
        """What runs under an id."""
        return next(facts for facts in self.seen.roles if facts.id == role_id)

    def set_state(self, role_id: str, state: RoleState, reason: str = "", message: str = "") -> None:
        """Brings a role into a state."""
        self._replace(role_id, state=state, reason=reason, message=message, since=self.now)

    def workers(self) -> Mapping[str, str | None]:
        """Which worker runs where."""
        return {facts.id: facts.node for facts in self.seen.roles if facts.role == "worker"}

    def _observed(self) -> Observed:
        master = [
            facts for facts in self.seen.roles if facts.id == "master" and facts.state is RoleState.READY
        ]
        if not master:
            return dataclasses.replace(self.seen, data=None)
        ready = [
            self.settings[facts.id]
            for facts in self.seen.roles
            if facts.role == "worker" and facts.id in self.settings
        ]
        quotas = (folder.quota_bytes for role in ready for folder in role.cache)
        capacity = sum(min(quota, self.largest_quota_bytes) for quota in quotas)
        return dataclasses.replace(self.seen, data=dataclasses.replace(self.data, capacity_bytes=capacity))

    def _write(self, made: Plan) -> None:
        if self.dataset is not None:
            self.dataset = self.dataset.model_copy(update={"status": made.dataset_status})
        if self.runtime is not None:
            self.runtime = self.runtime.model_copy(update={"status": made.runtime_status})

    def _take(self, made: Plan) -> None:
        roles = {role.id: role for role in made.roles}
        for role_id in made.steps.stop:
            self.see(roles=tuple(facts for facts in self.seen.roles if facts.id != role_id))
            self.settings.pop(role_id, None)
        for role_id in made.steps.drain:
            self._replace(role_id, state=RoleState.DRAINING, since=self.now)
        for role_id in (*made.steps.start, *made.steps.replace):
            self._start(roles[role_id])

    def _start(self, role: Role) -> None:
        self.settings[role.id] = role
        kept = tuple(facts for facts in self.seen.roles if facts.id != role.id)
        node = role.node or (self.seen.nodes[0].name if role.kind is RoleKind.MASTER else None)
        facts = RoleFacts(role.id, role.kind, node, RoleState.STARTING, role.version, self.now)
        self.see(roles=(*kept, facts))

    def _live(self) -> None:
        """What was started becomes ready, or fails; what drained ends."""
        for facts in self.seen.roles:
            if facts.state is RoleState.STARTING and facts.id in self.broken:
                self.set_state(facts.id, RoleState.FAILED, *self.broken[facts.id])
            elif facts.state is RoleState.STARTING:
                self.set_state(facts.id, RoleState.READY)
            elif facts.state is RoleState.DRAINING and facts.id not in self.broken:
                self.set_state(facts.id, RoleState.ENDED)

    def _moving(self) -> bool:
        return any(facts.state in {RoleState.STARTING, RoleState.DRAINING} for facts in self.seen.roles)

    def _replace(self, role_id: str, **fields: Any) -> None:
        self.see(
            roles=tuple(
                dataclasses.replace(facts, **fields) if facts.id == role_id else facts
                for facts in self.seen.roles
            )
        )


def bound(text: str = SEED, nodes: int = 4) -> World:
    """A world in which a dataset is bound and nothing is left to do."""
    world = World.of(text, gpu_nodes(nodes))
    world.settle()
    world.plans.clear()
    return world


def phases(plans: list[Plan]) -> list[str]:
    """The phases of a dataset in their order, each once."""
    seen = [str(made.dataset_status.phase) for made in plans if made.dataset_status]
    return [phase for number, phase in enumerate(seen) if number == 0 or seen[number - 1] != phase]
