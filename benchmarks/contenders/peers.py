"""The peers: each is found on this machine or left out, and runs with its best options for data that never changes.

One table entry each: how to call it, what it keeps, how it tells its version. Nothing here installs anything.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contenders.contract import CacheSpace, Kind, MountError, Source
from benchmarks.contenders.foreground import HIDDEN_VARIABLES, ForegroundMount, find_program, program_version

# The remote of rclone, which takes its configuration from variables named after it.
REMOTE = "bench"

CommandMaker = Callable[[str, Source, Path, CacheSpace], list[str]]
EnvironmentMaker = Callable[[Source], Mapping[str, str]]


def _keys(source: Source) -> Mapping[str, str]:
    return {
        **source.credentials.environment(),
        "AWS_REGION": source.region,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def _s3fs_keys(source: Source) -> Mapping[str, str]:
    keys = source.credentials
    return {"AWSACCESSKEYID": keys.access_key_id, "AWSSECRETACCESSKEY": keys.secret_access_key}


def _rclone_keys(source: Source) -> Mapping[str, str]:
    settings = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ENDPOINT": source.endpoint,
        "REGION": source.region,
        "ACCESS_KEY_ID": source.credentials.access_key_id,
        "SECRET_ACCESS_KEY": source.credentials.secret_access_key,
    }
    return {f"RCLONE_CONFIG_{REMOTE.upper()}_{name}": value for name, value in settings.items()}


def _s3fs(program: str, source: Source, mountpoint: Path, cache: CacheSpace) -> list[str]:
    bucket = f"{source.bucket}:/{source.prefix}" if source.prefix else source.bucket
    options = (
        *(f"url={source.endpoint}", "use_path_request_style", "ro", "kernel_cache"),
        *(f"use_cache={cache.folder}", "max_stat_cache_size=2000000", "stat_cache_expire=86400"),
        *("parallel_count=16", "multireq_max=64"),
    )
    return [program, bucket, str(mountpoint), "-f", *(text for option in options for text in ("-o", option))]


def _rclone(program: str, source: Source, mountpoint: Path, cache: CacheSpace) -> list[str]:
    remote = f"{REMOTE}:{source.bucket}/{source.prefix}".rstrip("/")
    return [
        *(program, "mount", remote, str(mountpoint), "--read-only", "--config", os.devnull),
        *("--vfs-cache-mode", "full", "--cache-dir", str(cache.folder)),
        *("--vfs-cache-max-size", f"{cache.quota_mebibytes}Mi", "--vfs-cache-poll-interval", "1s"),
        *("--vfs-cache-max-age", "24h", "--dir-cache-time", "24h", "--attr-timeout", "1h"),
        *("--vfs-read-ahead", "128Mi", "--buffer-size", "16Mi", "--use-server-modtime", "--no-modtime"),
        *("--vfs-fast-fingerprint", "--no-checksum", "--poll-interval", "0"),
    ]


def _goofys(program: str, source: Source, mountpoint: Path, cache: CacheSpace) -> list[str]:  # noqa: ARG001
    return [
        *(program, "-f", "-o", "ro", "--endpoint", source.endpoint, "--region", source.region),
        *("--stat-cache-ttl", "24h", "--type-cache-ttl", "24h"),
        *(f"{source.bucket}:{source.prefix}", str(mountpoint)),
    ]


def _geesefs(program: str, source: Source, mountpoint: Path, cache: CacheSpace) -> list[str]:  # noqa: ARG001
    # Its disk cache takes only what --cache-to-disk-hits reads back; its memory cache is the one it is known for.
    return [
        *(program, "-f", "-o", "ro", "--endpoint", source.endpoint, "--region", source.region, "--no-detect"),
        *(
            "--memory-limit",
            "1000",
            "--entry-limit",
            "2000000",
            "--stat-cache-ttl",
            "24h",
            "--list-type",
            "2",
        ),
        *(
            "--no-dir-object",
            "--no-checksum",
            "--disable-xattr",
            "--print-stats",
            "0",
            "--log-file",
            "stderr",
        ),
        *(f"{source.bucket}:{source.prefix}", str(mountpoint)),
    ]


def _mountpoint(program: str, source: Source, mountpoint: Path, cache: CacheSpace) -> list[str]:
    prefix = ["--prefix", f"{source.prefix}/"] if source.prefix else []
    return [
        *(program, source.bucket, str(mountpoint), "--foreground", "--read-only", *prefix),
        *("--endpoint-url", source.endpoint, "--force-path-style", "--region", source.region),
        *("--cache", str(cache.folder), "--max-cache-size", str(cache.quota_mebibytes)),
        *("--metadata-ttl", "indefinite", "--maximum-throughput-gbps", "40"),
    ]


@dataclass(frozen=True)
class Peer:
    """A FUSE program of others."""

    name: str
    program: Path | None
    command: CommandMaker
    version_flags: Sequence[str] = ("--version",)
    environment: EnvironmentMaker = _keys
    keeps_disk_cache: bool = True
    obeys_quota: bool = False
    kind: Kind = Kind.PEER

    def missing(self) -> str | None:
        return None if self.program else "not installed here"

    def version(self) -> str:
        return program_version([str(self.program), *self.version_flags])

    def mount(self, source: Source, mountpoint: Path, cache: CacheSpace) -> ForegroundMount:
        if self.program is None:
            raise MountError(f"{self.name} is not installed")
        cache.folder.mkdir(parents=True, exist_ok=True)
        return ForegroundMount(
            self.command(str(self.program), source, mountpoint, cache),
            mountpoint,
            log_path=cache.folder.with_suffix(".log"),
            environment=self.environment(source),
        )


def known_peers() -> list[Peer]:
    """Every peer that this benchmark can call, installed or not."""
    debian_rclone, newer_rclone = Path("/usr/bin/rclone"), find_program("rclone")
    installed_rclone = debian_rclone if debian_rclone.is_file() else None
    rclone = {
        "command": _rclone,
        "version_flags": ("version",),
        "environment": _rclone_keys,
        "obeys_quota": True,
    }
    peers = [
        Peer("s3fs", find_program("s3fs"), _s3fs, environment=_s3fs_keys),
        Peer("rclone", installed_rclone or newer_rclone, **rclone),  # type: ignore[arg-type]
        Peer("goofys", find_program("goofys"), _goofys, keeps_disk_cache=False),
        Peer("geesefs", find_program("geesefs"), _geesefs, keeps_disk_cache=False),
        Peer("mountpoint-s3", find_program("mount-s3"), _mountpoint, obeys_quota=True),
    ]
    if installed_rclone and newer_rclone and newer_rclone.resolve() != installed_rclone.resolve():
        peers.insert(2, Peer("rclone-new", newer_rclone, **rclone))  # type: ignore[arg-type]
    return peers


def list_with_rclone(peer: Peer, source: Source, entries: int, *, limit_s: float) -> float:
    """Seconds that rclone takes to list a folder of a bucket recursively, with its fast listing."""
    remote = f"{REMOTE}:{source.bucket}/{source.prefix}"
    command = [
        str(peer.program),
        "lsf",
        "--recursive",
        "--files-only",
        "--fast-list",
        "--config",
        os.devnull,
        remote,
    ]
    environment = {name: value for name, value in os.environ.items() if name not in HIDDEN_VARIABLES}
    start = time.perf_counter()
    done = subprocess.run(
        command,
        capture_output=True,
        check=False,
        timeout=limit_s,
        env={**environment, **peer.environment(source)},
    )
    elapsed = time.perf_counter() - start
    if done.returncode != 0 or done.stdout.count(b"\n") != entries:
        raise MountError(f"`rclone lsf` told {done.stdout.count(10)} of {entries} names")
    return elapsed
