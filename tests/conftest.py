"""Which tests may run side by side: `make test` runs files of tests beside one another, and some folders in a row.

What is in one lane shares something that is dear or that a machine has once: a Kubernetes of the tests' own, the nodes
that tests/cluster makes, the local backend's network. All other files stand alone.
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from headrace.process.garbage import collect_seldom, pass_over_what_is_there

# As in all programs of ours, and before the tests are loaded: they import most of the package.
collect_seldom()

LANES: dict[str, tuple[str, ...]] = {
    # First the longest: who runs the last of them alone keeps everybody waiting.
    "Kubernetes": ("tests/kubernetes",),
    # Two, as below: in one lane they took as long as all else together, whatever ran beside them.
    "local backend": (
        "tests/integration/test_local_",
        "tests/integration/test_migrate",
        "tests/integration/test_seeds",
        "tests/integration/test_training_mpi",
        "tests/integration/test_training_users",
        "tests/unit/netns",
    ),
    "changes on a local backend": (
        "tests/integration/test_convergence",
        "tests/integration/test_dataset_changes",
        "tests/integration/test_run.py",
    ),
    # Two, since one would run alone in the end: its tests wait for failure detectors more than they compute.
    "cluster": ("tests/cluster",),
    "faults of a cluster": (
        "tests/cluster/test_epochs",
        "tests/cluster/test_faults",
        "tests/cluster/test_page",
        "tests/cluster/test_security",
    ),
    "real mounts": (
        "tests/integration/csi/",
        "tests/integration/test_csi_sanity",
        "tests/integration/test_survival",
    ),
    # Beside the longest lane of all, on networks of their own.
    "parts of the local backend": (
        "tests/unit/cli/test_backend_verbs",
        "tests/unit/cli/test_selecting_verbs",
        "tests/unit/csi",
        "tests/unit/local",
    ),
    # On a second Kubernetes, when a runner is free for it: the longest lane would run alone in the end. Not more of it:
    # with test_jindofs here, too, both processors were busy all the time, and it took longer.
    "other clusters": (
        "tests/kubernetes/test_cluster",
        "tests/kubernetes/test_image_contents",
        "tests/kubernetes/test_leftovers",
        "tests/kubernetes/test_repairs",
    ),
}
"""What runs in a row, by how the names of its files begin; the longest beginning that fits a test decides."""

EARLY: tuple[str, ...] = (
    "tests/integration",
    "tests/contract",
    "tests/unit/roles/test_master",
    "tests/unit/roles/test_worker",
    "tests/unit/testing/test_cluster_bed",
    "tests/unit/training/test_instance_process",
    "tests/unit/operator/test_operator_model",
    "tests/unit/plan/test_convergence_model",
)
"""What of all else begins first: the files that take longest."""

# How long an example takes says more of the machine than of the code. What is tried is always the same, so that nothing
# fails by chance; `make soak` tries something else each time.
settings.register_profile(
    "headrace",
    deadline=None,
    derandomize="SOAK_MINUTES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("headrace")


def pytest_configure() -> None:
    # A shell's background job, and so all that it starts, ignores SIGINT: then no test could interrupt a program.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Which files differ; pytest would print their content: half a gigabyte in a log, which nobody reads."""
    if op != "==" or not (isinstance(left, dict) and isinstance(right, dict)):
        return None
    if not any(isinstance(value, bytes) for value in [*left.values(), *right.values()]):
        return None
    return [f"contents of {len(left)} and {len(right)} files differ", *differences(left, right)[:_MOST_TOLD]]


_MOST_TOLD = 20


def differences(left: dict[object, object], right: dict[object, object]) -> list[str]:
    """A line for each name that only one side has, or whose content differs: its length here and there."""
    names = sorted({*left, *right}, key=str)
    return [
        f"{name}: {_shown(left, name)} == {_shown(right, name)}"
        for name in names
        if name not in left or name not in right or left[name] != right[name]
    ]


def _shown(contents: dict[object, object], name: object) -> str:
    content = contents.get(name)
    if isinstance(content, bytes):
        return f"{len(content)} bytes {content[:16]!r}…" if len(content) > 32 else repr(content)
    return repr(content) if name in contents else "not there"


class Lanes(LoadScopeScheduling):
    """One of these lanes, or one other file, at a time for each runner; the lanes begin first, in their order."""

    def _split_scope(self, nodeid: str) -> str:
        return lane_of(nodeid)


def lane_of(nodeid: str) -> str:
    """What a test runs in a row with."""
    starts = {start: lane for lane, found in LANES.items() for start in found if nodeid.startswith(start)}
    return starts[max(starts, key=len)] if starts else nodeid.partition("::")[0]


def rank_of(nodeid: str) -> int:
    """When a test begins: who runs the last of the long ones alone keeps everybody waiting."""
    lanes, lane = list(LANES), lane_of(nodeid)
    if lane in lanes:
        return lanes.index(lane)
    return len(lanes) + next(
        (rank for rank, start in enumerate(EARLY) if nodeid.startswith(start)), len(EARLY)
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: rank_of(item.nodeid))


def pytest_collection_finish() -> None:
    pass_over_what_is_there()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes:
    # It would begin with what has the most tests.
    config.option.loadscopereorder = False
    return Lanes(config, log)
