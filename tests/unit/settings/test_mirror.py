"""The pydantic models and the serde structs of the engine are one configuration, written down twice."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from headrace.settings import cluster, copying, engine, origins
from headrace.settings.model import Model

ENGINE = Path(__file__).parents[3] / "crates" / "engine" / "src"
SOURCE = (ENGINE / "config.rs").read_text() + (ENGINE / "engine" / "copying.rs").read_text()
STRUCTS: list[type[Model]] = [
    engine.EngineConfig,
    engine.LevelConfig,
    engine.FolderConfig,
    engine.Limits,
    engine.TransferConfig,
    origins.Exclude,
    origins.OriginMount,
    cluster.ClusterConfig,
    cluster.TlsConfig,
    cluster.WorkerConfig,
    copying.CopyConfig,
]
VARIANTS: dict[str, type[Model]] = {
    "Local": origins.LocalOrigin,
    "S3": origins.S3Origin,
    "Oss": origins.OssOrigin,
    "Webhdfs": origins.WebhdfsOrigin,
    "Http": origins.HttpOrigin,
    "Nfs": origins.NfsOrigin,
    "Cluster": origins.ClusterOrigin,
}


def fields_of_struct(name: str) -> set[str]:
    body = re.search(rf"pub struct {name} \{{(.*?)\n\}}", SOURCE, re.DOTALL)
    assert body, name
    return set(re.findall(r"pub (\w+):", body[1]))


def fields_of_variant(name: str) -> set[str]:
    body = re.search(rf"\n    {name} \{{(.*?)\}}", SOURCE, re.DOTALL)
    assert body, name
    code = re.sub(r"///[^\n]*", "", body[1])
    return set(re.findall(r"(\w+):", code))


@pytest.mark.parametrize("model", STRUCTS)
def test_struct_and_model_have_the_same_fields(model: type[Model]) -> None:
    assert set(model.model_fields) == fields_of_struct(model.__name__)


@pytest.mark.parametrize("variant", VARIANTS)
def test_origin_and_model_have_the_same_fields(variant: str) -> None:
    model = VARIANTS[variant]
    assert set(model.model_fields) - {"kind"} == fields_of_variant(variant)
    assert model.model_fields["kind"].default == variant.lower()


@pytest.mark.parametrize("enum", [engine.Medium, engine.EvictionPolicy, engine.SnapshotPolicy])
def test_enums_have_the_same_values(enum: type[StrEnum]) -> None:
    body = re.search(rf"pub enum {enum.__name__} \{{(.*?)\n\}}", SOURCE, re.DOTALL)
    assert body
    names = re.findall(r"^    ([A-Z]\w+)", body[1], re.MULTILINE)
    spelled = {re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower() for name in names}
    assert {value.value.lower() for value in enum} == spelled


def test_defaults_agree() -> None:
    limits, transfer = engine.Limits(), engine.TransferConfig()
    # Of memory and descriptors Python takes a share of what the process is allowed.
    assert "memory_bytes: 512 << 20, descriptors: 8192, inodes: 64 << 20" in SOURCE
    assert limits.inodes == 64 << 20
    for name in ("concurrency", "timeout_s", "retries", "threads"):
        default = re.search(rf"{name}: ([\d.]+),", SOURCE)
        assert default
        assert getattr(transfer, name) == float(default[1])
    assert transfer.readahead_bytes == 128 << 20
    assert transfer.block_size_bytes == 4 << 20


def config(**changed: object) -> engine.EngineConfig:
    origin = origins.S3Origin(
        bucket="b", secret_access_key=SecretStr("PLANTED-SECRET"), access_key_id=SecretStr("PLANTED")
    )
    values = {
        "name": "n",
        "origins": (origins.OriginMount(origin=origin),),
        "state_directory": "/state",
        **changed,
    }
    return engine.EngineConfig.model_validate(values)


def test_json_for_the_engine_is_the_only_text_with_credentials() -> None:
    made = config()
    assert json.loads(made.to_json())["origins"][0]["origin"]["secret_access_key"] == "PLANTED-SECRET"
    assert "PLANTED" not in f"{made} {made!r} {made.model_dump_json()}"


@pytest.mark.parametrize(
    "changed",
    [
        {"unknown": 1},
        {"origins": ()},
        {"transfer": {"block_size_bytes": 3 << 20}},
        {"transfer": {"block_size_bytes": 128 << 20}},
        {"cache": ({"medium": "SSD", "folders": ()},)},
        {
            "cache": (
                {"medium": "SSD", "folders": ({"path": "/x", "quota_bytes": 1},), "high": 0.5, "low": 0.6},
            )
        },
        {"limits": {"memory_bytes": 1}},
    ],
)
def test_impossible_configuration_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        config(**changed)
