"""The names under which people know the options of an origin: one table for parsing and for the reference page.

The spellings are those of Fluid's Dataset YAML, JindoFS, Alluxio, Hadoop and rclone-like plain words; the environment
variables are the clouds' own. An option that no origin of its kind knows is an error that names the nearest one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.errors import ConfigError


@dataclass(frozen=True)
class Option:
    """One field of an origin's configuration and every way to give it."""

    field: str
    meaning: str
    spellings: tuple[str, ...]
    variables: tuple[str, ...] = ()
    secret: bool = False
    flag: bool = False
    of_lists: bool = False
    """It says what is listed: whoever only reads has no use for it."""


_ANONYMOUS = Option(
    "anonymous", "Send unsigned requests, for public buckets", ("anonymous", "no-sign-request"), flag=True
)

_IGNORE_CHECKSUMS = Option(
    "ignore_checksums",
    "Do not compare content with the checksums that the storage tells, for one that tells wrong ones",
    ("ignore-checksums",),
    flag=True,
)

_IGNORE_CHANGE_TIMES = Option(
    "ignore_change_times",
    "Tell files apart by size and modification time alone, not also by change time and inode: for a folder of which "
    "each node has a copy of its own, or whose change times change while the content stays",
    ("ignore-change-times",),
    flag=True,
)

_STRICT = Option(
    "strict",
    "Refuse a list of the dataset that leaves anything out but what is excluded (`headrace status` shows what and why "
    "without this)",
    ("strict",),
    flag=True,
    of_lists=True,
)

_EXCLUDE = Option(
    "exclude",
    "Patterns of files and folders to leave out, one a line, as in a `.gitignore`; `@FILE` takes them from a file. See "
    "[Names that you do not want](../semantics.md#names-that-you-do-not-want)",
    ("exclude",),
    of_lists=True,
)

S3_OPTIONS = (
    Option(
        "endpoint",
        "Address of the server, `https://host[:port]`; without it, AWS",
        (
            "endpoint",
            "fs.s3.endpoint",
            "fs.s3a.endpoint",
            "alluxio.underfs.s3.endpoint",
            "aws.endpoint",
            "s3.endpoint",
        ),
        ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    ),
    Option(
        "region",
        "Region of the bucket",
        (
            "region",
            "fs.s3.region",
            "fs.s3a.endpoint.region",
            "alluxio.underfs.s3.endpoint.region",
            "alluxio.underfs.s3.region",
            "aws.region",
            "s3.region",
        ),
        ("AWS_REGION", "AWS_DEFAULT_REGION"),
    ),
    Option(
        "path_style",
        "Bucket in the path instead of in the host name",
        (
            "path-style",
            "fs.s3.path.style.access",
            "fs.s3a.path.style.access",
            "fs.s3.pathStyle",
            "alluxio.underfs.s3.disable.dns.buckets",
        ),
        flag=True,
    ),
    _IGNORE_CHECKSUMS,
    Option(
        "access_key_id",
        "Access key",
        ("access-key-id", "aws.accessKeyId", "fs.s3.accessKeyId", "fs.s3a.access.key", "s3a.accessKeyId"),
        ("AWS_ACCESS_KEY_ID",),
        secret=True,
    ),
    Option(
        "secret_access_key",
        "Secret of the access key",
        (
            "secret-access-key",
            "aws.secretKey",
            "aws.secretAccessKey",
            "fs.s3.accessKeySecret",
            "fs.s3a.secret.key",
            "s3a.accessKeySecret",
        ),
        ("AWS_SECRET_ACCESS_KEY",),
        secret=True,
    ),
    Option(
        "session_token",
        "Token of temporary credentials",
        ("session-token", "aws.sessionToken", "fs.s3.securityToken", "fs.s3a.session.token"),
        ("AWS_SESSION_TOKEN",),
        secret=True,
    ),
    _ANONYMOUS,
    Option(
        "requester_pays",
        "Pay for requests and transfer, in buckets whose owner wants it so",
        (
            "requester-pays",
            "request-payer",
            "fs.s3.requester.pays.enabled",
            "fs.s3a.requester.pays.enabled",
        ),
        flag=True,
    ),
)

OSS_OPTIONS = (
    Option(
        "endpoint",
        "Address of the OSS region, such as `oss-cn-shanghai.aliyuncs.com`; it may also stand in the URL",
        ("endpoint", "fs.oss.endpoint", "alluxio.underfs.oss.endpoint", "jfs.oss.endpoint"),
        ("OSS_ENDPOINT", "ALIBABA_CLOUD_OSS_ENDPOINT"),
    ),
    Option(
        "path_style",
        "Bucket in the path instead of in the host name",
        ("path-style", "fs.oss.path.style.access"),
        flag=True,
    ),
    _IGNORE_CHECKSUMS,
    Option(
        "access_key_id",
        "Access key",
        ("access-key-id", "fs.oss.accessKeyId", "jfs.cache.oss.accessKeyId"),
        ("OSS_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_ID"),
        secret=True,
    ),
    Option(
        "access_key_secret",
        "Secret of the access key",
        ("access-key-secret", "secret-access-key", "fs.oss.accessKeySecret", "jfs.cache.oss.accessKeySecret"),
        ("OSS_ACCESS_KEY_SECRET", "ALIBABA_CLOUD_ACCESS_KEY_SECRET"),
        secret=True,
    ),
    Option(
        "security_token",
        "Token of temporary credentials",
        ("security-token", "session-token", "fs.oss.securityToken", "jfs.cache.oss.securityToken"),
        ("OSS_SESSION_TOKEN", "ALIBABA_CLOUD_SECURITY_TOKEN"),
        secret=True,
    ),
    _ANONYMOUS,
)

HDFS_OPTIONS = (
    Option("user", "Name of the Hadoop user", ("user", "hadoop.user.name"), ("HADOOP_USER_NAME",)),
    Option(
        "endpoint",
        "Address of WebHDFS or HttpFS, `http://host:port`, when it is not the URL's host on port 9870",
        ("endpoint", "dfs.namenode.http-address", "webhdfs.endpoint"),
    ),
    Option(
        "delegation_token",
        "Delegation token",
        ("delegation-token", "webhdfs.delegation.token"),
        secret=True,
    ),
)

HTTP_OPTIONS = (
    Option("username", "User of basic authentication", ("username",)),
    Option("password", "Password of basic authentication", ("password",), secret=True),
    Option("token", "Bearer token", ("token",), secret=True),
)

NFS_OPTIONS = (
    Option(
        "uid",
        "Number of the user who asks, as the server sees it; without it, this process's own",
        ("nfs.uid", "uid"),
    ),
    Option("gid", "Number of the group who asks; without it, this process's own", ("nfs.gid", "gid")),
    Option(
        "port",
        "Port of NFS; it may also stand in the URL; without it, as the server's port mapper says, else 2049",
        ("nfs.port", "port"),
    ),
    Option(
        "mount_port",
        "Port of MOUNT; without it, as the server's port mapper says, else that of NFS",
        ("nfs.mountport", "mountport"),
    ),
    _IGNORE_CHANGE_TIMES,
)

LOCAL_OPTIONS = (_IGNORE_CHANGE_TIMES,)

OPTIONS: Mapping[str, tuple[Option, ...]] = {
    "s3": (*S3_OPTIONS, _STRICT, _EXCLUDE),
    "oss": (*OSS_OPTIONS, _STRICT, _EXCLUDE),
    "webhdfs": (*HDFS_OPTIONS, _STRICT, _EXCLUDE),
    "http": (*HTTP_OPTIONS, _STRICT, _EXCLUDE),
    "nfs": (*NFS_OPTIONS, _STRICT, _EXCLUDE),
    "local": (*LOCAL_OPTIONS, _STRICT, _EXCLUDE),
}
"""By kind of origin."""

_TRUE = {"true", "yes", "on", "1", ""}
_FALSE = {"false", "no", "off", "0"}


def is_known(spelling: str) -> bool:
    """True when any kind of origin knows this option."""
    return any(spelling in option.spellings for options in OPTIONS.values() for option in options)


def is_secret(spelling: str) -> bool:
    """True when the option holds a credential; an unknown name that looks like one counts as such."""
    for options in OPTIONS.values():
        for option in options:
            if spelling in option.spellings:
                return option.secret
    lowered = spelling.lower()
    return any(
        word in lowered for word in ("secret", "token", "password", "accesskey", "access-key", "credential")
    )


def is_of_lists(spelling: str) -> bool:
    """True when the option says what is listed, and means nothing to whoever only reads."""
    return any(
        option.of_lists for options in OPTIONS.values() for option in options if spelling in option.spellings
    )


def secret_variables() -> frozenset[str]:
    """The environment variables that hold credentials."""
    every = (option for options in OPTIONS.values() for option in options if option.secret)
    return frozenset(name for option in every for name in option.variables)


def find(kind: str, spelling: str) -> Option | None:
    """The option of this kind of origin that `spelling` names."""
    return next((option for option in OPTIONS[kind] if spelling in option.spellings), None)


def unknown(spelling: str, kinds: Iterable[str]) -> ConfigError:
    """The error for an option that none of these kinds of origin knows."""
    names = sorted(kinds)
    known = sorted({word for kind in names for option in OPTIONS[kind] for word in option.spellings})
    nearest = difflib.get_close_matches(spelling, known, n=1, cutoff=0.5)
    hint = f"did you mean '{nearest[0]}'?" if nearest else f"known are, for example: {', '.join(known[:6])}"
    return ConfigError.of(
        f"unknown option '{spelling}' for an origin of kind {' or '.join(names)}", hint=hint
    )


def parse_flag(spelling: str, text: str) -> bool:
    """The truth of `true`, `yes`, `on`, `1`, nothing at all, and of their opposites."""
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ConfigError.of(
        f"option '{spelling}' is neither true nor false: '{text}'", hint="write true or false"
    )
