from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from headrace.engine.configure import configure
from headrace.errors import ConfigError
from headrace.settings.cluster import ClusterConfig
from headrace.settings.dataset import DatasetSettings, MountSettings
from headrace.settings.engine import FolderConfig, LevelConfig, Limits, TransferConfig
from headrace.settings.environment import Environment
from headrace.settings.faults import fault_text
from headrace.settings.model import Model
from headrace.settings.origins import HttpOrigin, NfsOrigin, OssOrigin, S3Origin, WebhdfsOrigin
from headrace.settings.roles import ROLES

MODELS: list[type[Model]] = [
    *ROLES.values(),
    *(DatasetSettings, MountSettings, Limits, TransferConfig, LevelConfig, FolderConfig, ClusterConfig),
    *(S3Origin, OssOrigin, WebhdfsOrigin, HttpOrigin, NfsOrigin),
]
ODD: list[object] = [
    *(object(), None, [], {}, [object()], {"a": object()}, b"\xff", "", "odd", "\ud800", "planted-secret"),
    *(-1, 0, 1, 1.5, 10**30, float("nan"), float("inf"), True, Path("/x")),
]
# The words of the library that checks, which are no words of ours.
FOREIGN = re.compile(r"[Ii]nput|should|valid\b|Value error|pydantic|unable|<|object at")


@pytest.mark.parametrize("model", MODELS)
def test_no_fault_of_any_setting_speaks_in_the_words_of_a_library(model: type[Model]) -> None:
    for field in model.model_fields:
        for value in ODD:
            try:
                model.model_validate({field: value})
            except ValidationError as error:
                for fault in error.errors(include_url=False):
                    text = fault_text(fault)
                    assert not FOREIGN.search(text), (field, value, fault["type"], text)
                    assert "planted-secret" not in text


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"memory": "16Mi"}, "setting 'memory': '16Mi' is too little"),
        ({"memory": "much"}, "setting 'memory': 'much' is not a size"),
        ({"read_ahead": "-1"}, "setting 'read_ahead': '-1' is not a size"),
        ({"block_size": "3Mi"}, "setting 'block_size': a block is a power of two from 64Ki to 64Mi"),
        ({"concurrency": 5000}, "setting 'concurrency': 5000 is too much; at most 4096"),
        ({"timeout_s": -2.5}, "setting 'timeout_s': -2.5 s is too little; more than 0 s"),
        ({"descriptors": 8}, "setting 'descriptors': 8 is too little; at least 64"),
        ({"retries": 101}, "setting 'retries': 101 is too much; at most 100"),
        ({"high": 1.5}, "setting 'high': 1.5 is too much; at most 1"),
        ({"options": {"nfs.port": "70000"}}, "option 'nfs.port': is too much; at most 65535"),
    ],
)
def test_a_value_out_of_bounds_is_told_with_its_bound_in_the_units_of_whoever_wrote_it(
    tmp_path: Path, settings: dict[str, object], says: str
) -> None:
    origin = "nfs://server/export" if "options" in settings else f"{tmp_path}"
    given = {"cache": (f"{tmp_path}/cache:1Gi",), **settings}
    with pytest.raises(ConfigError) as refused:
        configure([origin], DatasetSettings(**given), Environment({"HOME": str(tmp_path)}))
    assert says in refused.value.message
    if settings.get("memory") == "16Mi":
        assert refused.value.hint == "64Mi is the least"
