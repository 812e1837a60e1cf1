"""Addresses of mounts as the planner sees them: which kind of origin reads them, what they lack, what is below them.

Only what can be said without asking anybody; the rest is the engine's to find out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.api.mounts import scheme_of

KIND_OF_SCHEME: Mapping[str, str] = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "oss": "oss",
    "hdfs": "webhdfs",
    "webhdfs": "webhdfs",
    "swebhdfs": "webhdfs",
    "http": "http",
    "https": "http",
    "local": "local",
    "file": "local",
    "nfs": "nfs",
}
"""Kind of origin by scheme. Claims and datasets stand for others."""

CLAIM = "pvc"
DATASET = "dataset"


def rest_of(address: str) -> str:
    """`bucket/prefix` of `oss://bucket/prefix`."""
    return address.partition("://")[2]


def claim_of(address: str) -> tuple[str, str]:
    """Claim and folder of `pvc://claim/folder`."""
    name, _, below = rest_of(address).partition("/")
    return name, below.strip("/")


def dataset_of(address: str) -> tuple[str, str]:
    """`namespace/name` and folder of `dataset://namespace/name/folder`."""
    namespace, name, *below = rest_of(address).split("/", 2)
    return f"{namespace}/{name}", below[0].strip("/") if below else ""


def folder_of(address: str) -> str:
    """`/a/b` of `local:///a/b` however it is written; empty for what is no folder."""
    if KIND_OF_SCHEME.get(scheme_of(address)) != "local":
        return ""
    return "/" + "/".join(part for part in rest_of(address).split("/") if part not in ("", "."))


def opened(folder: str, open_folders: Iterable[str]) -> str | None:
    """The one of these folders that holds `folder`, or is it: the nearest."""
    holding = [each for each in open_folders if f"{folder}/".startswith(f"{each}/")]
    return max(holding, key=len, default=None)


def below(address: str, folder: str) -> str:
    """The address of a folder below another."""
    return f"{address.rstrip('/')}/{folder}" if folder else address


def carries_credentials(address: str) -> bool:
    """True for `scheme://user:password@host/…`; a bucket or a local folder may hold any character."""
    kind = KIND_OF_SCHEME.get(scheme_of(address))
    return kind not in {None, "local"} and "@" in rest_of(address).partition("/")[0]


def without_credentials(address: str) -> str:
    """The address as it may be shown."""
    if not carries_credentials(address):
        return address
    scheme, _, rest = address.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


def names_endpoint(address: str) -> bool:
    """True for `oss://bucket.endpoint/prefix`."""
    return "." in rest_of(address).partition("/")[0]
