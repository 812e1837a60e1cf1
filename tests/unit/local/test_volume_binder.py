"""Claims find their volumes."""

from __future__ import annotations

from itertools import permutations

import pytest

from headrace.local.store import admission
from headrace.local.store.object_store import Selection
from headrace.local.store.records import Reference
from headrace.local.store.volume_binder import KINDS, bind, bindings


def volume(
    name: str = "v", size: str = "150Gi", mode: str = "ReadOnlyMany", **spec
) -> tuple[Reference, dict]:
    content = {
        "capacity": {"storage": size},
        "accessModes": [mode],
        "nfs": {"server": "s", "path": "/"},
        **spec,
    }
    return Reference("PersistentVolume", "", name), {"spec": content}


def claim(name: str = "c", size: str = "150Gi", mode: str = "ReadOnlyMany", **spec) -> tuple[Reference, dict]:
    content = {"accessModes": [mode], "resources": {"requests": {"storage": size}}, **spec}
    return Reference("PersistentVolumeClaim", "default", name), {"spec": content}


def bound(store, *objects) -> dict[str, str]:
    """Phases by name after the objects were made; what a claim has stands behind its phase."""
    with store.changing() as transaction:
        for reference, content in objects:
            transaction.create(reference, content)
    return phases(store)


def phases(store) -> dict[str, str]:
    while bind(store):
        pass
    found = store.select(Selection(KINDS))[0]
    return {
        each.reference.name: f"{each.status['phase']} {each.content['spec'].get('volumeName', '')}".strip()
        for each in found
    }


def test_a_claim_takes_the_smallest_volume_that_is_large_enough(store) -> None:
    assert bound(
        store, volume("large", "900Gi"), volume("fits", "200Gi"), volume("small", "1Gi"), claim()
    ) == {
        "large": "Available",
        "fits": "Bound",
        "small": "Available",
        "c": "Bound fits",
    }


@pytest.mark.parametrize(
    "asked",
    [
        claim(size="151Gi"),
        claim(mode="ReadWriteMany"),
        claim(storageClassName="nfs"),
        claim(volumeName="other"),
    ],
    ids=["too-large", "mode", "class", "another-volume"],
)
def test_a_claim_that_nothing_fits_waits(store, asked) -> None:
    assert bound(store, volume(), asked) == {
        "v": "Available",
        "c": "Pending" + (" other" if "volumeName" in asked[1]["spec"] else ""),
    }


def test_a_volume_that_is_set_aside_goes_to_its_claim(store) -> None:
    aside = volume("aside", claimRef={"namespace": "default", "name": "c"})
    assert bound(store, volume("smaller", "150Gi"), aside, claim()) == {
        "smaller": "Available",
        "aside": "Bound",
        "c": "Bound aside",
    }


def test_a_volume_is_not_given_away_after_its_claim(store) -> None:
    bound(store, volume(), claim())
    with store.changing() as transaction:
        transaction.delete(claim()[0])
    assert phases(store) == {"v": "Released"}
    assert bound(store, claim()) == {"v": "Released", "c": "Pending"}


def test_a_claim_whose_volume_is_gone_is_lost(store) -> None:
    bound(store, volume(), claim())
    with store.changing() as transaction:
        transaction.delete(volume()[0])
    assert phases(store) == {"c": "Lost v"}


def test_a_volume_has_one_claim_whatever_the_order(store) -> None:
    objects = [volume("a"), claim("one"), claim("two")]
    outcomes = []
    for order in permutations(objects):
        outcomes.append(bound(store, *order))
        with store.changing() as transaction:
            for reference, _ in order:
                transaction.delete(reference)
    assert {tuple(sorted(each.items())) for each in outcomes} == {
        (("a", "Bound"), ("one", "Bound a"), ("two", "Pending"))
    }


def test_what_is_bound_stays_so(store) -> None:
    bound(store, volume(), claim())
    assert bindings(store.select(Selection(KINDS))[0]) == []


def test_a_file_that_is_applied_again_does_not_part_them(store) -> None:
    def apply() -> None:
        with store.changing() as transaction:
            for reference, content in (volume(), claim()):
                admission.apply(transaction, admission.Wish(reference, content))

    apply()
    assert phases(store)["c"] == "Bound v"
    apply()
    assert phases(store) == {"v": "Bound", "c": "Bound v"}
