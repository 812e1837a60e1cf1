"""What the planner writes, the roles take: origins with their secret files, and cache words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from planned import SEED, World, changed

from headrace.engine.caches import cache_levels
from headrace.plan.roles import Role, SecretKey, plain_value
from headrace.roles.specs.origins import resolve_origins
from headrace.roles.specs.terminal import Terminal
from headrace.settings.environment import Environment
from headrace.settings.origins import OriginMount
from headrace.settings.roles import MemberSettings, OriginSettings

SECRETS = {"fs.oss.accessKeyId": "AKID", "fs.oss.accessKeySecret": "hunter2"}


def rendered(world: World, role: Role, folder: Path) -> tuple[OriginSettings, ...]:
    """The origins of a role, with secret files as a backend writes them."""
    assert not isinstance(role.settings, MemberSettings)
    origins = []
    for origin in role.settings.origins:
        file = next((file for file in role.secrets if file.origin_path == origin.path), None)
        if file is not None:
            values = {
                option: SECRETS[place.key]
                if isinstance(place, SecretKey)
                else plain_value(world.dataset, place)
                for option, place in file.values.items()
            }
            path = folder / f"{origin.path}.json"
            path.write_text(json.dumps(values), encoding="utf-8")
            path.chmod(0o600)
            origins.append(origin.model_copy(update={"secret_file": path}))
        else:
            origins.append(origin)
    return tuple(origins)


def resolved(world: World, folder: Path) -> tuple[OriginMount, ...]:
    """The engine's own values of the first worker's origins."""
    worker = next(role for role in world.settle().roles if role.kind == "worker")
    warnings: list[str] = []
    environment, terminal = Environment({"HOME": str(folder)}), Terminal(warnings.append, warnings.append)
    found = resolve_origins(rendered(world, worker, folder), environment, terminal)
    assert not warnings
    return found.mounts


def test_oss_with_keys_of_a_secret(tmp_path: Path) -> None:
    (mount,) = resolved(World.of(), tmp_path)
    assert (mount.path, mount.label) == ("imagenet", "oss://bucket/imagenet")
    assert mount.origin.access_key_secret.get_secret_value() == "hunter2"


@pytest.mark.parametrize(
    ("mount", "label"),
    [
        (
            {
                "mountPoint": "s3://corpus/text",
                "name": "a",
                "options": {"aws.region": "eu-west-1", "metaPolicy": "ONCE"},
            },
            "s3://corpus/text",
        ),
        (
            {
                "mountPoint": "s3a://corpus",
                "name": "a",
                "options": {
                    "alluxio.underfs.s3.endpoint": "http://10.0.0.5:9000",
                    "alluxio.underfs.s3.disable.dns.buckets": "true",
                    "aws.accessKeyId": "AKID",
                    "aws.secretKey": "@hunter2",
                },
            },
            "s3://corpus",
        ),
        (
            {
                "mountPoint": "hdfs://namenode:8020/data",
                "name": "a",
                "options": {"hadoop.user.name": "train"},
            },
            "namenode:9870/data",
        ),
        ({"mountPoint": "https://host/files/", "name": "a"}, "https://host/files"),
        ({"mountPoint": "local:///data/train", "name": "a"}, "/data/train"),
        ({"mountPoint": "oss://bucket.oss-cn-shanghai.aliyuncs.com/x", "name": "a"}, "oss://bucket/x"),
    ],
)
def test_origins_of_every_kind(tmp_path: Path, mount: dict[str, object], label: str) -> None:
    world = World.of(SEED)
    world.dataset = changed(world.dataset, mounts=[mount])
    (made,) = resolved(world, tmp_path)
    assert label in made.label
    if "secretKey" in str(mount):
        assert made.origin.secret_access_key.get_secret_value() == "@hunter2"


def test_shared_options_reach_each_mount_that_knows_them(tmp_path: Path) -> None:
    world = World.of(SEED)
    mounts = [
        {"mountPoint": "s3://corpus", "name": "text", "options": {"region": "eu-west-1"}},
        {"mountPoint": "local:///data", "name": "here"},
    ]
    world.dataset = changed(
        world.dataset, mounts=mounts, sharedOptions={"s3.endpoint": "http://10.0.0.5:9000"}
    )
    text, here = resolved(world, tmp_path)
    assert text.origin.endpoint == "http://10.0.0.5:9000"
    assert here.label == "/data"


def test_cache_words(tmp_path: Path) -> None:
    levels = [
        {"mediumtype": "MEM", "path": "/dev/shm", "quota": "1Gi"},
        {"mediumtype": "SSD", "path": "/a,/b", "quotaList": "10Gi,20Gi", "high": "0.9", "low": "0.8"},
    ]
    world = World.of(SEED.replace("JindoRuntime", "AlluxioRuntime"))
    world.runtime = changed(world.runtime, tieredstore={"levels": levels})
    worker = next(role for role in world.settle().roles if role.kind == "worker")
    words = [folder.word(f"{tmp_path}{folder.folder}") for folder in worker.cache]
    memory, disk = cache_levels(words, high=0.98, low=0.95)
    assert [(each.path.name, each.quota_bytes) for each in disk.folders] == [
        ("imagenet", 10 << 30),
        ("imagenet", 20 << 30),
    ]
    assert (memory.medium, disk.high, disk.low) == ("MEM", 0.9, 0.8)
