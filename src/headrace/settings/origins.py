"""Places of data, by protocol: the mirror of `OriginConfig` in `crates/engine/src/config.rs`.

Credentials are `SecretStr`: they show as `**********` wherever such a value is printed. `renewal` is the name by which
the engine knows keys that can come anew.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from headrace.settings.model import Model

Port = Annotated[int, Field(ge=1, le=65535)]
UserNumber = Annotated[int, Field(ge=0, le=2**32 - 1)]


class LocalOrigin(Model):
    """A folder of this machine, or of anything that the kernel has mounted."""

    kind: Literal["local"] = "local"
    directory: PurePosixPath
    ignore_change_times: bool = False

    @property
    def label(self) -> str:
        """The origin in one word, for people."""
        return str(self.directory)


class S3Origin(Model):
    """S3 and everything that speaks its protocol."""

    kind: Literal["s3"] = "s3"
    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None
    path_style: bool = False
    ignore_checksums: bool = False
    access_key_id: SecretStr | None = None
    secret_access_key: SecretStr | None = None
    session_token: SecretStr | None = None
    anonymous: bool = False
    requester_pays: bool = False
    renewal: str | None = None

    @property
    def label(self) -> str:
        """The origin in one word, for people."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


class OssOrigin(Model):
    """Alibaba Cloud OSS by its own protocol and signature."""

    kind: Literal["oss"] = "oss"
    bucket: str
    prefix: str = ""
    endpoint: str
    path_style: bool = False
    ignore_checksums: bool = False
    access_key_id: SecretStr | None = None
    access_key_secret: SecretStr | None = None
    security_token: SecretStr | None = None
    anonymous: bool = False
    renewal: str | None = None

    @property
    def label(self) -> str:
        """The origin in one word, for people."""
        return f"oss://{self.bucket}/{self.prefix}".rstrip("/")


class WebhdfsOrigin(Model):
    """HDFS through WebHDFS or HttpFS."""

    kind: Literal["webhdfs"] = "webhdfs"
    endpoint: str
    directory: str
    user: str | None = None
    delegation_token: SecretStr | None = None
    renewal: str | None = None

    @property
    def label(self) -> str:
        """The origin in one word, for people."""
        return f"{self.endpoint}{self.directory}"


class HttpOrigin(Model):
    """A web server whose folders answer with an index page."""

    kind: Literal["http"] = "http"
    endpoint: str
    directory: str
    username: str | None = None
    password: SecretStr | None = None
    token: SecretStr | None = None
    renewal: str | None = None

    @property
    def label(self) -> str:
        """The origin in one word, for people."""
        return f"{self.endpoint}{self.directory}"


class NfsOrigin(Model):
    """A folder of an NFS server, by version 3 of the protocol and without mounting it."""

    kind: Literal["nfs"] = "nfs"
    server: str
    port: Port | None = None
    mount_port: Port | None = None
    directory: str
    uid: UserNumber | None = None
    gid: UserNumber | None = None
    ignore_change_times: bool = False

    @property
    def label(self) -> str:
        """The origin in one word, for people."""
        return f"nfs://{self.server}{self.directory}"


class ClusterOrigin(Model):
    """The workers of a cluster, who read from the origin of this canonical name."""

    kind: Literal["cluster"] = "cluster"
    name: str

    @property
    def label(self) -> str:
        """The origin in one word, for people."""
        return self.name


Origin = LocalOrigin | S3Origin | OssOrigin | WebhdfsOrigin | HttpOrigin | NfsOrigin | ClusterOrigin
OriginConfig = Annotated[Origin, Field(discriminator="kind")]


class Exclude(Model):
    """Objects of an origin that nobody wants: patterns, and where the origin lies below the folder that they are of."""

    patterns: tuple[str, ...] = ()
    below: str = ""


class OriginMount(Model):
    """One origin, and the slash-separated place in the dataset's tree where it appears; empty for the root."""

    path: str = ""
    origin: OriginConfig
    strict: bool = False
    exclude: Exclude = Field(default_factory=Exclude)

    @property
    def label(self) -> str:
        """The origin in one word, for people: `s3://bucket/prefix`."""
        return self.origin.label
