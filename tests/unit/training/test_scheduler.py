"""Where the processes of a job run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_contexts import job_spec

from headrace.jobs.spec import JobKind, JobSpec, Role, RoleName, Toleration
from headrace.local.jobs.replicas import groups_of, replicas_of
from headrace.local.jobs.scheduler import CandidateNode, Placement, schedule
from headrace.plan.observed import Node, Taint


def site(number: int, **fields: Any) -> CandidateNode:
    labels = {"kubernetes.io/hostname": f"node-{number}", "parity": "even" if number % 2 == 0 else "odd"}
    own = {key: fields.pop(key) for key in ("taints", "is_ready") if key in fields}
    return CandidateNode(Node(f"node-{number}", labels, **own), **fields)


def placed(spec: JobSpec, *sites: CandidateNode) -> Placement:
    return schedule(spec, replicas_of(spec, "uid", 1), sites)


def workers(spec: JobSpec, *sites: CandidateNode) -> list[str]:
    found = placed(spec, *sites).nodes
    return [found[f"job-worker-{number}"] for number in range(len(found) - 1)]


def test_workers_are_spread_near_the_data_and_away_from_others() -> None:
    sites = [site(1, users=1), site(2), site(3, cached_share=0.5), site(4, cached_share=0.45)]
    assert workers(job_spec(workers=3), *sites) == ["node-3", "node-4", "node-2"]


def test_more_workers_than_nodes_share_them_evenly() -> None:
    assert workers(job_spec(workers=5), site(2), site(1)) == [
        "node-1",
        "node-2",
        "node-1",
        "node-2",
        "node-1",
    ]


def test_the_launcher_is_with_the_first_worker_and_has_a_name_of_its_try() -> None:
    spec = job_spec()
    first, second = (replicas_of(spec, "uid", attempt) for attempt in (1, 2))
    assert first[0].is_chief
    assert first[0].name != second[0].name
    assert [replica.name for replica in first[1:]] == [replica.name for replica in second[1:]]
    found = placed(spec, site(1), site(2)).nodes
    assert found[first[0].name] == found["job-worker-0"]


@pytest.mark.parametrize(
    ("kind", "chief"),
    [
        (JobKind.MPI, RoleName.LAUNCHER),
        (JobKind.PYTORCH, RoleName.MASTER),
        (JobKind.TF, RoleName.CHIEF),
    ],
)
def test_a_job_ends_with_the_chief_of_its_kind_or_else_with_its_first_worker(
    kind: JobKind, chief: RoleName
) -> None:
    first, *others = replicas_of(job_spec(kind=kind), "uid", 1)
    assert (first.role, first.is_chief) == (chief, True)
    assert not [replica for replica in others if replica.is_chief]
    if kind is not JobKind.MPI:
        alone = job_spec(kind=kind, roles=(Role(name=RoleName.WORKER, replicas=2),))
        names = [(replica.name, replica.is_chief) for replica in replicas_of(alone, "uid", 1)]
        assert names == [("job-worker-0", True), ("job-worker-1", False)]


def test_an_mpi_job_has_a_launcher_whether_it_says_so_or_not() -> None:
    spec = job_spec(roles=(Role(name=RoleName.WORKER, replicas=1),))
    assert [replica.role for replica in replicas_of(spec, "uid", 1)] == [RoleName.LAUNCHER, RoleName.WORKER]
    assert groups_of(spec) == ((RoleName.WORKER,), (RoleName.LAUNCHER,))


def test_a_role_begins_when_it_is_said_to() -> None:
    sequence = (RoleName.WORKER, RoleName.CHIEF)
    assert groups_of(job_spec(kind=JobKind.TF, role_sequence=sequence)) == tuple((each,) for each in sequence)
    assert groups_of(job_spec(kind=JobKind.TF)) == ((RoleName.CHIEF, RoleName.WORKER),)


@pytest.mark.parametrize(
    ("fields", "sites", "word"),
    [
        ({}, [], "no node"),
        ({"selector": {"parity": "prime"}}, [site(1)], "labels of --selector"),
        ({}, [site(1, taints=(Taint("gpu", "v100", "NoSchedule"),))], "tainted"),
        ({}, [site(1, is_ready=False)], "not ready"),
    ],
)
def test_what_is_in_the_way_is_said(fields: dict[str, Any], sites: list[CandidateNode], word: str) -> None:
    assert word in placed(job_spec(**fields), *sites).problem


def test_selectors_and_tolerations_choose_nodes() -> None:
    tainted = site(2, taints=(Taint("gpu", "v100", "NoSchedule"),))
    spec = job_spec(selector={"parity": "even"}, tolerations=(Toleration(operator="Exists"),))
    assert workers(spec, site(1), tainted, site(3)) == ["node-2", "node-2"]


def test_roles_may_have_to_be_spread_or_to_be_packed() -> None:
    def spec(**policy: str) -> JobSpec:
        chief, worker = job_spec(kind=JobKind.TF, workers=3).roles
        return job_spec(kind=JobKind.TF, roles=(chief, worker.model_copy(update=policy)))

    must = spec(affinity_policy="spread", affinity_constraint="required")
    assert "fewer nodes than 3" in placed(must, site(1), site(2)).problem
    assert len(set(placed(must, site(1), site(2), site(3)).nodes.values())) == 3
    packed = placed(spec(affinity_policy="binpack"), site(1), site(2), site(3)).nodes
    assert len(set(packed.values())) == 1


@given(st.integers(1, 8), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3)), min_size=1, max_size=6))
def test_no_node_has_two_workers_more_than_another(count: int, shares: list[tuple[float, int]]) -> None:
    sites = [
        replace(site(number), cached_share=share, users=users) for number, (share, users) in enumerate(shares)
    ]
    found = workers(job_spec(workers=count), *sites)
    counts = [found.count(each.name) for each in sites]
    assert max(counts) - min(counts) <= 1
