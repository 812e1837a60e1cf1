"""Several datasets on shared nodes: whatever is declared and whatever dies, once it is quiet the world is as declared.

The backend is simulated (`simulated.py`); `tests/integration/test_convergence.py` does the same to real processes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from planned import SEED, changed, objects
from property_examples import examples
from simulated import Key, SimulatedBackend, SimulatedDataset

from headrace.plan.condition_times import condition_of
from headrace.plan.observed import Node, RoleState, SecretFacts
from headrace.plan.outcome import Plan
from headrace.plan.selectors import fits_selector

DATASET, RUNTIME = objects(SEED)
NODES = tuple(
    Node(f"node-{number}", labels={"disk": disk}) for number, disk in enumerate(("ssd", "ssd", "hdd"))
)
KEYS: tuple[Key, ...] = (("default", "imagenet"), ("default", "corpus"), ("team", "imagenet"))
SECRETS = ("mysecret", "other")
SECRET_KEY = "fs.oss.accessKeyId"
ON_SSD = {
    "required": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
    }
}


def _mount(name: str, secret: str) -> dict[str, Any]:
    reference = {"secretKeyRef": {"name": secret, "key": SECRET_KEY}}
    return {
        "mountPoint": f"oss://bucket/{name}",
        "name": name,
        "options": {"fs.oss.endpoint": "oss.example"},
        "encryptOptions": [{"name": "fs.oss.accessKeyId", "valueFrom": reference},
                           {"name": "fs.oss.accessKeySecret", "valueFrom": reference}],
    }  # fmt: skip


keys = st.sampled_from(KEYS)
mounts = st.lists(
    st.builds(_mount, st.sampled_from(("train", "test")), st.sampled_from(SECRETS)),
    min_size=1,
    max_size=2,
    unique_by=lambda mount: mount["name"],
)
affinities = st.sampled_from((None, ON_SSD))
replicas = st.integers(0, 4)
levels = st.sampled_from(
    ([{"mediumtype": "SSD", "path": "/ssd", "quota": "8Gi"}], [{"mediumtype": "MEM", "quota": "1Gi"}])
)
fuses = st.sampled_from(({}, {"cleanPolicy": "OnDemand"}, {"disabled": True}))
draws = st.randoms(use_true_random=False)


def _named(thing: Any, key: Key, **spec: Any) -> Any:
    """The object under another name, with another spec."""
    metadata = thing.metadata.model_copy(update={"namespace": key[0], "name": key[1]})
    return changed(thing.model_copy(update={"metadata": metadata}), **spec)


class WorldBesideDeclarations(RuleBasedStateMachine):
    """Between two settlings anything may happen, and looks may be cut off."""

    @initialize()
    def begin(self) -> None:
        self.backend = SimulatedBackend(NODES)
        for namespace in ("default", "team"):
            self.backend.secrets[namespace] = {name: SecretFacts({SECRET_KEY: "1"}) for name in SECRETS}
        for key in KEYS[:2]:
            dataset = _named(DATASET, key, mounts=[_mount("train", "mysecret")], nodeAffinity=None)
            self.backend.declare(key, dataset, _named(RUNTIME, key, replicas=2))

    @rule(key=keys, mounts=mounts, affinity=affinities, shared=st.booleans(), replicas=replicas, levels=levels,
          fuse=fuses, which=st.sampled_from(("both", "both", "dataset", "runtime")))  # fmt: skip
    def declare(self, key, mounts, affinity, shared, replicas, levels, fuse, which) -> None:
        placement = "Shared" if shared else "Exclusive"
        dataset = _named(DATASET, key, mounts=mounts, nodeAffinity=affinity, placement=placement)
        runtime = _named(RUNTIME, key, replicas=replicas, tieredstore={"levels": levels}, fuse=fuse)
        self.backend.declare(
            key, dataset if which != "runtime" else None, runtime if which != "dataset" else None
        )

    @rule(key=keys, mounts=mounts)
    def change_mounts(self, key, mounts) -> None:
        self._change(key, "dataset", mounts=mounts)

    @rule(key=keys, affinity=affinities)
    def change_affinity(self, key, affinity) -> None:
        self._change(key, "dataset", nodeAffinity=affinity)

    @rule(key=keys, replicas=replicas)
    def scale(self, key, replicas) -> None:
        self._change(key, "runtime", replicas=replicas)

    @rule(key=keys, levels=levels)
    def change_tiers(self, key, levels) -> None:
        self._change(key, "runtime", tieredstore={"levels": levels})

    @rule(key=keys, which=st.sampled_from(("dataset", "runtime")))
    def delete(self, key, which) -> None:
        if key in self.backend.datasets:
            self.backend.delete(key, which)

    @rule(
        namespace=st.sampled_from(("default", "team")),
        name=st.sampled_from(SECRETS),
        digest=st.sampled_from("012"),
    )
    def change_secret(self, namespace, name, digest) -> None:
        secrets = self.backend.secrets[namespace]
        if digest == "0":
            secrets.pop(name, None)
        else:
            secrets[name] = SecretFacts({SECRET_KEY: digest})

    @rule(key=keys, random=draws, how=st.sampled_from(("kill", "freeze", "thaw", "lose")))
    def hit_a_role(self, key, random, how) -> None:
        there = self.backend.datasets.get(key)
        if there is None or not there.roles:
            return
        role = random.choice(sorted(there.roles))
        if how == "freeze" and role.startswith("worker"):
            there.frozen.add(role)
            there.world.set_state(role, RoleState.STARTING)
        elif how == "kill":
            there.frozen.discard(role)
            there.world.set_state(role, RoleState.FAILED)
        elif how == "lose":
            there.frozen.discard(role)
            kept = tuple(facts for facts in there.world.seen.roles if facts.id != role)
            there.world.see(roles=kept)
        else:
            there.frozen.clear()

    @rule(key=keys, nodes=st.sets(st.sampled_from([node.name for node in NODES])))
    def use(self, key, nodes) -> None:
        if key in self.backend.datasets:
            self.backend.datasets[key].used = frozenset(nodes)

    @rule()
    def restart_the_supervisor(self) -> None:
        self.backend.restart()

    @rule(key=keys, most=st.integers(0, 3))
    def look_and_be_cut_off(self, key, most) -> None:
        if key in self.backend.datasets:
            self.backend.reconcile(key, cut_after=most)
            self.backend._live()

    @precondition(lambda self: hasattr(self, "backend"))
    @rule(random=draws)
    def settle(self, random) -> None:
        self._settle(lambda keys: random.sample(sorted(keys), len(keys)))

    def _settle(self, ordered: Callable[[list[Key]], list[Key]] = sorted) -> None:
        for there in self.backend.datasets.values():
            there.frozen.clear()
        self.backend.settle(ordered)
        check(self.backend)

    def teardown(self) -> None:
        if not hasattr(self, "backend"):
            return
        self._settle()
        for key, there in self.backend.datasets.items():
            there.used = frozenset()
            self.backend.delete(key, "dataset")
            self.backend.delete(key, "runtime")
        self.backend.settle()
        assert self.backend.datasets == {}

    def _change(self, key: Key, which: str, **spec: Any) -> None:
        there = self.backend.datasets.get(key)
        thing = getattr(there.world, which) if there else None
        if thing is not None and thing.metadata.deletion_timestamp is None:
            setattr(there.world, which, changed(thing, **spec))


def check(backend: SimulatedBackend) -> None:
    """A quiet world is as declared, and what is said of it is true."""
    for there in backend.datasets.values():
        world = there.world
        in_use = bool(there.used & there.nodes_of("mount"))
        leaves = [x for x in (world.dataset, world.runtime) if x and x.metadata.deletion_timestamp]
        if leaves:
            assert in_use, f"{there.title} is not deleted though nobody uses it"
        if world.dataset is None or world.runtime is None:
            assert not there.roles or in_use, f"{there.title} is half declared and runs {sorted(there.roles)}"
        elif there.last is not None and not leaves:
            _check_service(backend, there)
        _check_said(there)


def _check_service(backend: SimulatedBackend, there: SimulatedDataset) -> None:
    world, made = there.world, there.last
    assert made is not None
    dataset, runtime = world.dataset, world.runtime
    assert dataset is not None
    assert runtime is not None
    lacking = _lacking_secrets(backend, there)
    assert made.holds == bool(lacking), (there.title, lacking)
    if made.holds:
        assert all(facts.state is RoleState.READY for facts in there.roles.values())
        return
    _check_roles(there, made)
    _check_workers(backend, there, runtime.spec.replicas)


def _check_roles(there: SimulatedDataset, made: Plan) -> None:
    """What runs is what was planned; a mount in use may be an older one."""
    running = there.roles
    assert running.keys() == {role.id for role in made.roles}
    assert "master" in running
    for role in made.roles:
        facts = running[role.id]
        assert facts.state is RoleState.READY
        assert role.node in (None, facts.node)
        assert facts.version == role.version or (role.kind == "mount" and facts.node in there.used)


def _check_workers(backend: SimulatedBackend, there: SimulatedDataset, wanted: int) -> None:
    nodes = [facts.node for facts in there.roles.values() if facts.role == "worker"]
    assert len(set(nodes)) == len(nodes) <= wanted
    fitting = {node.name for node in NODES if _fits(node, there.world.dataset)}
    assert set(nodes) <= fitting
    free = {node for node in fitting - set(nodes) if _is_free(backend, there, node)}
    assert len(nodes) == wanted or not free, f"{there.title} has {nodes} of {wanted}, and {free} are free"
    _check_mounts(there, set(nodes))


def _check_mounts(there: SimulatedDataset, workers: set[str | None]) -> None:
    fuse = there.world.runtime.spec.fuse if there.world.runtime else None
    mounts = there.nodes_of("mount")
    if fuse is not None and (fuse.disabled or fuse.clean_policy == "OnDemand"):
        assert mounts <= there.used
    else:
        assert workers <= mounts


def _lacking_secrets(backend: SimulatedBackend, there: SimulatedDataset) -> set[str]:
    dataset = there.world.dataset
    assert dataset is not None
    named = {
        each.value_from.secret_key_ref.name
        for mount in dataset.spec.mounts or ()
        for each in mount.encrypt_options
    }
    return named - set(backend.secrets[there.key[0]])


def _fits(node: Node, dataset: Any) -> bool:
    affinity = dataset.spec.node_affinity
    return fits_selector(node, affinity.required if affinity else None)


def _is_free(backend: SimulatedBackend, there: SimulatedDataset, node: str) -> bool:
    others = [
        other
        for key, other in backend.datasets.items()
        if key != there.key and node in other.nodes_of("worker")
    ]
    alone = backend.is_exclusive(there.key)
    return not others if alone else not any(backend.is_exclusive(other.key) for other in others)


def _check_said(there: SimulatedDataset) -> None:
    world = there.world
    ready = [f for f in there.roles.values() if f.role == "worker" and f.state is RoleState.READY]
    if world.dataset is not None:
        status = world.dataset.status
        assert status is not None
        said = condition_of(status.conditions, "Ready")
        assert said is not None
        serves = bool(ready) and world.runtime is not None
        if there.last is not None and there.last.holds:
            degraded = condition_of(status.conditions, "Degraded")
            reasons = {said.reason, degraded.reason if degraded else ""}
            assert reasons & {"SecretMissing", "WorkersGone", "WorkersDisabled"}, (
                there.title,
                said,
                degraded,
            )
            return
        assert (said.status == "True") == serves, (there.title, said)
        if serves:
            assert status.phase == "Bound"
            assert status.file_num == str(world.data.files)
        else:
            assert status.phase != "Bound" or said.reason == "WorkersGone" or said.reason == "WorkersDisabled"
    if world.runtime is not None:
        said_of = world.runtime.status
        assert said_of is not None
        assert said_of.current_worker_number_scheduled == len(there.nodes_of("worker"))
        assert said_of.current_fuse_number_scheduled == len(there.nodes_of("mount"))


TestWorldBesideDeclarations = WorldBesideDeclarations.TestCase
TestWorldBesideDeclarations.settings = settings(
    max_examples=examples(40, in_a_soak=80), stateful_step_count=30, deadline=None
)
