"""Origins of a dataset: what is mounted, where in its tree, with which options and credentials.

Only the form of an address is checked here; whether the engine can read it, the planner says.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from headrace.api.base import ApiModel, CrossFault, Flag, Words
from headrace.settings.exclusions import Patterns

SCHEMES = (
    "oss", "s3", "s3a", "s3n", "hdfs", "webhdfs", "swebhdfs", "http", "https", "local", "file", "nfs", "pvc",
    "dataset", "cos", "cosn", "obs", "gs", "dls", "juicefs", "abfs", "abfss", "wasb", "wasbs", "cephfs",
    "glusterfs", "swift",
)  # fmt: skip
"""Schemes of addresses, those of other engines included: what cannot be read here gets a condition, no error."""

_ADDRESS = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_SECRET_KEY = re.compile(r"[-._a-zA-Z0-9]+")


def scheme_of(address: str) -> str:
    """`oss` of `oss://bucket/prefix`; empty without one."""
    match = _ADDRESS.fullmatch(address)
    return match["scheme"].lower() if match else ""


def check_address(address: str) -> str:
    """The address, if its form is right. The error names no more of it than its scheme: it may hold a password."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ValueError("is not an address: write it like oss://bucket/prefix, s3://bucket or pvc://claim")
    scheme, rest = match["scheme"].lower(), match["rest"]
    if scheme not in SCHEMES:
        if scheme == "minio":
            raise ValueError("has the unknown scheme 'minio': MinIO speaks S3, so write s3://BUCKET")
        nearest = difflib.get_close_matches(scheme, SCHEMES, n=1, cutoff=0.6)
        hint = f"did you mean {nearest[0]}://?" if nearest else f"known are {', '.join(SCHEMES)}"
        raise ValueError(f"has the unknown scheme '{scheme[:32]}': {hint}")
    problem = _problem_of(scheme, rest)
    if problem:
        raise ValueError(problem)
    return address


def _problem_of(scheme: str, rest: str) -> str | None:
    parts = rest.split("/")
    if any(character.isspace() or not character.isprintable() for character in rest):
        return "holds a space or a control character: write %20 for a space"
    if scheme in {"local", "file"} and not rest.startswith("/"):
        return f"needs an absolute path: {scheme}:///folder"
    if scheme in {"local", "file", "pvc", "dataset"} and ".." in parts:
        return "may not hold '..'"
    if scheme == "dataset" and (len(parts) < 2 or not parts[0] or not parts[1]):
        return "names no dataset: write dataset://NAMESPACE/NAME or dataset://NAMESPACE/NAME/SUB"
    if not rest.strip("/") and scheme not in {"local", "file", "hdfs", "juicefs"}:
        return f"names nothing: {scheme}://NAME is expected"
    return None


def _check_path(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError("is not absolute: a path in the dataset starts with '/'")
    if ".." in path.split("/"):
        raise ValueError("may not hold '..'")
    return path


def _check_name(name: str) -> str:
    if "/" in name or name in {".", ".."}:
        raise ValueError("may not hold '/', nor be '.' or '..': it is the name of a folder")
    return name


def _check_secret_key(key: str) -> str:
    if not _SECRET_KEY.fullmatch(key):
        raise ValueError("is not the key of a Secret: letters, digits, '-', '_' and '.'")
    return key


Address = Annotated[str, Field(min_length=5, max_length=4096), AfterValidator(check_address)]
"""Where data lies."""

TreePath = Annotated[str, Field(max_length=1024), AfterValidator(_check_path)]
"""A place in the tree of a dataset."""


class SecretKeySelector(ApiModel):
    """One value of a Secret in the dataset's namespace."""

    name: Annotated[str, Field(min_length=1, max_length=253)] = Field(description="Name of the Secret")
    key: Annotated[str, Field(max_length=253), AfterValidator(_check_secret_key)] | None = Field(
        default=None, description="Key in the Secret; the option's own name when absent"
    )


class EncryptOptionSource(ApiModel):
    """The source of an option's value."""

    secret_key_ref: SecretKeySelector = Field(description="A key of a Secret")


class EncryptOption(ApiModel):
    """An option whose value is secret."""

    name: str = Field(min_length=1, description="Name of the option, such as fs.oss.accessKeyId")
    value_from: EncryptOptionSource = Field(
        description="Source of its value, which is never written to a status"
    )

    @property
    def secret(self) -> tuple[str, str]:
        """The Secret and the key in it."""
        source = self.value_from.secret_key_ref
        return source.name, source.key or self.name


class Mount(ApiModel):
    """One origin and its place in the dataset's tree."""

    mount_point: Address = Field(
        description="Address of the data: oss://, s3://, hdfs://, http(s)://, nfs://, local:///folder, "
        "pvc://claim[/sub] or dataset://namespace/name[/sub]"
    )
    name: Annotated[str, Field(max_length=253), AfterValidator(_check_name)] | None = Field(
        default=None, description="Name of the mount, and of its folder when no path is given"
    )
    path: TreePath | None = Field(
        default=None, description="Path in the dataset: /NAME when absent, / for the top"
    )
    options: Words = Field(default_factory=dict, description="Options of the origin, such as its endpoint")
    encrypt_options: Annotated[tuple[EncryptOption, ...], Field(max_length=64)] = Field(
        default=(),
        description="Options whose values are in Secrets; they weigh more than plain ones of the same name",
    )
    exclude: Patterns = Field(
        default=(),
        description="Patterns of files and folders to leave out, as in a .gitignore: *.tmp, _temporary/, /top",
    )
    read_only: Flag | None = Field(default=None, description="Nothing may be written to this origin")
    shared: Flag | None = Field(default=None, description="Other users of the engine may see this mount")

    @property
    def tree_path(self) -> str:
        """The path at which it appears, without a slash at the end but for the top itself."""
        path = self.path or f"/{self.name or ''}"
        return "/" + "/".join(part for part in path.split("/") if part not in {"", "."})

    def cross_faults(self) -> Iterator[CrossFault]:
        """Each secret option once."""
        yield from repeated_names(self.encrypt_options, "encryptOptions")


def repeated_names(options: tuple[EncryptOption, ...], field: str) -> Iterator[CrossFault]:
    """Options that stand twice in one list."""
    seen: set[str] = set()
    for number, option in enumerate(options):
        if option.name in seen:
            yield CrossFault((field, number, "name"), "this option stands twice in the list")
        seen.add(option.name)


def repeated_places(mounts: tuple[Mount, ...]) -> Iterator[CrossFault]:
    """Mounts that would appear in one place."""
    first: dict[str, int] = {}
    for number, mount in enumerate(mounts):
        other = first.setdefault(mount.tree_path, number)
        if other != number:
            field = "path" if mount.path else "name" if mount.name else "mountPoint"
            yield CrossFault(
                ("mounts", number, field),
                f"appears at {mount.tree_path} as mounts[{other}] does: give each mount a path of its own",
            )
