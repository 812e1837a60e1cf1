"""The files of a volume become an origin."""

from __future__ import annotations

import pytest

from headrace.api.core import PersistentVolume
from headrace.plan.claims import address_of


@pytest.mark.parametrize(
    ("spec", "address"),
    [
        ({"nfs": {"server": "10.0.0.9", "path": "/export/imagenet"}}, "nfs://10.0.0.9/export/imagenet"),
        (
            {"nfs": {"server": "nas.example", "path": "/"}, "mountOptions": ["vers=3", "nolock"]},
            "nfs://nas.example/",
        ),
        (
            {"nfs": {"server": "nas.example", "path": "/x"}, "mountOptions": ["port=2050"]},
            "nfs://nas.example:2050/x",
        ),
        ({"nfs": {"server": "nas.example", "path": "/x"}, "mountOptions": ["port=x"]}, "nfs://nas.example/x"),
        ({"nfs": {"server": "fd00::9", "path": "/x"}}, "nfs://[fd00::9]/x"),
        ({"hostPath": {"path": "/data/set"}}, "local:///data/set"),
        ({"local": {"path": "/data/set"}}, "local:///data/set"),
        ({"csi": {"driver": "other.example"}}, ""),
    ],
)
def test_each_kind_of_volume_has_its_address(spec: dict[str, object], address: str) -> None:
    capacity = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadOnlyMany"]}
    volume = PersistentVolume.model_validate({"metadata": {"name": "v"}, "spec": {**capacity, **spec}})
    assert address_of(volume) == address
