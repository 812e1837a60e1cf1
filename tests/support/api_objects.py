"""Objects as YAML would have them, at random, made from the models themselves."""

from __future__ import annotations

import functools
import types
import typing
from datetime import datetime
from enum import Enum
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel

from headrace.api.base import yaml_names
from headrace.api.kinds import KINDS

TEXT = st.text(max_size=12)
NAME = st.from_regex(r"[a-z]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
PATH = st.from_regex(r"(/[a-z0-9]{1,4}){1,3}", fullmatch=True)
SIZE = st.sampled_from(["1Gi", "180G", "1.5Ti", "512 MiB", "1e", 1000])
QUANTITY = st.sampled_from(["500m", "2", "1.5Gi", "1e3", 4])
CRON = st.sampled_from(["0 3 * * *", "@daily", "*/5 0-6 1,15 jan-mar mon", "0 0 ? * 5"])
TIME = st.datetimes(datetime(1970, 1, 1)).map(lambda moment: moment.replace(microsecond=0).isoformat() + "Z")
ADDRESS = st.sampled_from(
    [
        "oss://bucket/prefix",
        "s3://b",
        "hdfs://nn:8020/",
        "pvc://claim/sub",
        "local:///data",
        "dataset://ns/name/sub",
    ]
)
OPAQUE = st.dictionaries(
    NAME, st.one_of(TEXT, st.integers(-5, 5), st.booleans(), st.lists(TEXT, max_size=2)), max_size=2
)

BY_FIELD: dict[str, st.SearchStrategy[Any]] = {
    "mountPoint": ADDRESS, "uri": ADDRESS, "path": PATH, "mountPath": PATH, "subPath": NAME, "schedule": CRON,
    "quota": SIZE, "high": st.just("0.95"), "low": st.just("0.5"), "backupPath": st.just("pvc://claim/x"),
    "name": NAME, "namespace": st.just("ns"), "key": NAME,
    "exclude": st.sampled_from(["*.tmp", "_temporary/", "!a b"]),
    "weight": st.integers(1, 100), "source": st.text(min_size=1), "dataset": NAME,
}  # fmt: skip


@functools.cache
def objects(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """Documents of a kind that are right."""
    model = KINDS[kind].model
    head = {"apiVersion": KINDS[kind].api_version, "kind": kind}
    body = contents(model).map(lambda content: {k: v for k, v in content.items() if k not in head})
    return body.map(lambda content: head | content)


@functools.cache
def contents(model: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    """Some fields of a model, made to fit together."""
    required, optional = {}, {}
    for name, python_name in yaml_names(model).items():
        field = model.model_fields[python_name]
        strategy = values(name, field.annotation, field.metadata)
        (required if field.is_required() else optional)[name] = strategy
    return st.fixed_dictionaries(required, optional=optional).map(
        lambda content: fit(model.__name__, content)
    )


def values(name: str, annotation: Any, metadata: list[Any]) -> st.SearchStrategy[Any]:
    """Values of one field."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return values(name, arguments[0], [*metadata, *arguments[1:]])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return contents(annotation)
    if origin is tuple:
        most, least = (1, 1) if name in {"mounts", "levels"} else (2, 0)
        least = max([least, *(getattr(each, "min_length", None) or 0 for each in metadata)])
        return st.lists(values(name, arguments[0], []), min_size=least, max_size=most)
    if origin in {types.UnionType, typing.Union} and type(None) in arguments:
        return values(name, next(each for each in arguments if each is not type(None)), metadata)
    if name in BY_FIELD:
        return BY_FIELD[name]
    if name.endswith("Time") or name.endswith("Timestamp"):
        return TIME
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return st.sampled_from([each.value for each in annotation])
    if origin is dict:
        inner = arguments[1]
        return OPAQUE if inner is Any else st.dictionaries(NAME, values("", inner, []), max_size=2)
    if origin in {types.UnionType, typing.Union}:
        return QUANTITY
    return {bool: st.booleans(), int: st.integers(1, 100), str: st.text(min_size=1, max_size=12)}[annotation]


def fit(model: str, content: dict[str, Any]) -> dict[str, Any]:
    """What several fields must agree on."""
    if model == "NodeSelectorRequirement":
        content["values"] = {"In": ["a"], "NotIn": ["a", "b"], "Gt": ["5"], "Lt": ["-5"]}.get(
            content["operator"], []
        )
    elif model == "Toleration":
        content["operator"] = "Exists"
        content.pop("value", None)
    elif model == "EnvVar":
        content.pop("valueFrom", None)
    elif model == "Level":
        content["quotaList"] = "1Gi"
        content.setdefault("path", "/x")
        content.pop("volumeSource", None)
    elif model == "Mount":
        content["encryptOptions"] = content.get("encryptOptions", [])[:1]
    elif model in {"DatasetSpec", "ExternalStorage"}:
        for field in ("sharedEncryptOptions", "encryptOptions"):
            if field in content:
                content[field] = content[field][:1]
        content.pop("dataRestoreLocation", None)
        if "accessModes" in content:
            content["accessModes"] = content["accessModes"][:1]
        if "sharedWith" in content:
            content["sharedWith"] = ["ns"] if content["sharedWith"] else []
    elif model in {"JindoComponent", "JindoFuse", "JindoRuntimeSpec"}:
        content.pop("labels", None)
        if "master" in content:
            content["master"].pop("replicas", None)
    elif model == "DataPlace":
        content = {"dataset": content.get("dataset", {"name": "d", "namespace": "ns"})}
    elif model == "Processor":
        content.pop("job", None)
        content.setdefault("script", {"source": "x"})
    elif model in {"DataLoadSpec", "DataMigrateSpec", "DataProcessSpec", "DataBackupSpec"}:
        content["target"] = content.get("target", [])[:1]
        if model != "DataLoadSpec":
            content.pop("target")
        content.pop("schedule", None)
        if content.get("policy") == "Cron":
            content["schedule"] = "@daily"
        content.pop("runAfter", None)
        if isinstance(content.get("dataset"), dict):
            content["dataset"].pop("namespace", None)
        if model == "DataProcessSpec":
            content["dataset"]["mountPath"] = "/where-no-volume-is"
    return content
