"""What the caches of other datasets have of a node: as it was given to them, whatever they ask for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from operator_context import SETTINGS, OperatorWorld
from planned import SEED

from headrace.plan.policy import policy_of

LIMITED = replace(SETTINGS, policy=policy_of('{"cachePerNode": {"SSD": "300Gi"}}'))
GREEDY = SEED.replace("180G", "9Ti")


def quotas_on(world: OperatorWorld, node: str) -> dict[str, int]:
    return {
        each.dataset: each.quotas.get("SSD", 0) >> 30
        for each in world.reservations.others("team-c/any").get(node, ())
    }


@pytest.mark.parametrize("asked", [GREEDY, GREEDY.replace("/var/lib/docker/jindo", "/etc")])
def test_who_asks_for_too_much_keeps_no_other_from_the_node(world: OperatorWorld, asked: str) -> None:
    """A JindoRuntime keeps a tenth of its quota free."""
    world.backend.settings = LIMITED
    world.declare(SEED.replace("180G", "100Gi"))
    world.settle()
    assert quotas_on(world, "node-1") == {"default/imagenet": 90}
    world.declare(asked)
    world.settle()
    assert quotas_on(world, "node-1") == {"default/imagenet": 90}
    world.restart()
    world.backend.settings = LIMITED
    assert quotas_on(world, "node-1") == {"default/imagenet": 90}
    world.settle()
    assert quotas_on(world, "node-1") == {"default/imagenet": 90}
