from __future__ import annotations

import pytest
from memory_jobs import mpi_spec

from headrace.jobs.planning import placement_problems
from headrace.jobs.spec import JobKind, Resources, Role, RoleName
from headrace.jobs.views import NodeRoom


def node(name: str, gpus: int = 0, *, slots: int = 0, ready: bool = True, **labels: str) -> NodeRoom:
    return NodeRoom(name, gpus, gpus, slots, ready, labels)


def test_four_workers_of_eight_gpus_fit_on_four_nodes_and_on_two_large_ones() -> None:
    assert placement_problems(mpi_spec(), [node(f"n{number}", 8) for number in range(4)]) == []
    assert placement_problems(mpi_spec(), [node("a", 16), node("b", 17)]) == []


def test_too_few_gpus_are_told_with_what_there_is() -> None:
    (sentence,) = placement_problems(mpi_spec(), [node("a", 8), node("b", 4), node("c", 8, ready=False)])
    assert "4 workers with 8 GPUs each" in sentence
    assert "a 8, b 4" in sentence
    assert "room for 1 of them" in sentence
    assert "--workers" in sentence


def test_sum_of_gpus_does_not_help_a_worker_that_fits_nowhere() -> None:
    assert placement_problems(mpi_spec(), [node(f"n{number}", 7) for number in range(9)])


def test_where_accelerators_are_emulated_only_slots_count() -> None:
    rooms = [node(f"n{number}", 0, slots=8) for number in range(4)]
    assert placement_problems(mpi_spec(), rooms)
    assert placement_problems(mpi_spec(), rooms, counts_gpus=False) == []
    assert placement_problems(mpi_spec(), rooms[:3], counts_gpus=False)


def test_nodes_without_the_selected_labels_do_not_count() -> None:
    rooms = [node("a", 32, disk="ssd"), node("b", 32)]
    assert placement_problems(mpi_spec(selector={"disk": "ssd"}), rooms) == []
    (sentence,) = placement_problems(mpi_spec(selector={"disk": "hdd"}), rooms)
    assert "disk=hdd" in sentence


@pytest.mark.parametrize("rooms", [[], [node("a", 99, ready=False)]])
def test_no_node_is_a_problem_of_every_job(rooms: list[NodeRoom]) -> None:
    assert len(placement_problems(mpi_spec(), rooms)) == 1


def test_each_role_is_looked_at_for_itself() -> None:
    roles = (
        Role(name=RoleName.WORKER, replicas=2, resources=Resources(gpus=1)),
        Role(name=RoleName.PS, replicas=1, resources=Resources(gpus=9)),
    )
    (sentence,) = placement_problems(mpi_spec(kind=JobKind.TF, roles=roles), [node("a", 8)])
    assert sentence.startswith("1 ps with 9 GPUs each")
