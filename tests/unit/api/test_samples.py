"""YAML that exists is taken as it stands: the documents that Headrace follows, and every field that Fluid has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.api.kinds import KINDS
from headrace.api.manifests import read_objects
from headrace.api.shapes import fields_below
from headrace.api.writing import content_of
from headrace.settings.yaml_streams import read_stream, write_stream

HERE = Path(__file__).parent
SEEDS = sorted((HERE / "seeds").glob("*.yaml"))
SAMPLES = sorted((HERE / "samples").glob("*.yaml"))


@pytest.mark.parametrize("file", SEEDS + SAMPLES, ids=lambda file: file.stem)
def test_it_is_accepted_and_written_as_it_was(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    things = read_objects(text, file.name)
    assert [content_of(thing, reveal_secrets=True) for thing in things] == [
        document.content for document in read_stream(text, file.name)
    ]
    assert (
        read_objects(write_stream(content_of(thing, reveal_secrets=True) for thing in things), "again")
        == things
    )


def test_the_seeds_declare_what_they_show() -> None:
    things = [thing for file in SEEDS for thing in read_objects(file.read_text(encoding="utf-8"), file.name)]
    assert [(type(thing).__name__, thing.name) for thing in things] == [
        ("Secret", "mysecret"),
        ("Dataset", "imagenet"),
        ("JindoRuntime", "imagenet"),
        ("Dataset", "imagenet"),
        ("AlluxioRuntime", "imagenet"),
        ("Dataset", "imagenet"),
        ("AlluxioRuntime", "imagenet"),
        ("Dataset", "fluid-imagenet"),
        ("AlluxioRuntime", "fluid-imagenet"),
        ("PersistentVolume", "nfs-imagenet"),
        ("PersistentVolumeClaim", "nfs-imagenet"),
    ]


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.is_core])
def test_the_samples_use_every_field_of_the_specs(name: str) -> None:
    seen = {
        path for file in SAMPLES for each in documents(file) if each["kind"] == name for path in paths(each)
    }
    fields = {path for path, _, _ in fields_below(KINDS[name].model) if path.startswith("spec.")}
    missing = {path for path in fields if path not in seen and not is_repeated(path)}
    assert missing == set()


def is_repeated(path: str) -> bool:
    """Parts that stand in several places are used whole in one of them."""
    whole = ("affinity.", "nodeAffinity", "tolerations", "encryptOptions", "sharedEncryptOptions", "runAfter")
    parts = ("env[]", "resources", "volumeMounts", "imagePullSecrets", "runAs", "podMetadata", "apiGateway")
    parts += (
        "spec.worker.",
        "spec.master.podMetadata",
        "externalStorage",
        "spec.from",
        "spec.to",
        "matchFields",
    )
    return any(part in path for part in (*whole, *parts))


def documents(file: Path) -> list[Any]:
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


def paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            here = f"{path}.{key}" if path else key
            yield here + ("[]" if isinstance(each, list) else "")
            yield from paths(each, here)
    elif isinstance(value, list):
        for each in value:
            yield from paths(each, path + "[]")
