"""The storage of the integration tests: a bucket of a real S3 server, and what stands between it and us."""

from __future__ import annotations

import http.server
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.testing.buckets import put_object
from headrace.testing.s3_server import S3Server

from .harness import Shell


@dataclass
class Bucket:
    """One bucket of a server that serves this test alone."""

    server: S3Server
    name: str = "data"
    # Where clients connect when something stands before the server.
    endpoint: str | None = None

    @property
    def uri(self) -> str:
        return f"s3://{self.name}"

    @property
    def options(self) -> dict[str, str]:
        """How to reach the bucket; the keys come from the environment."""
        return {"endpoint": self.endpoint or self.server.endpoint, "path-style": "true"}

    @property
    def options_with_keys(self) -> dict[str, str]:
        keys = self.server.credentials
        return {
            **self.options,
            "aws.accessKeyId": keys.access_key_id,
            "aws.secretKey": keys.secret_access_key,
        }

    def fill(self, content: Mapping[str, bytes]) -> None:
        """Makes or replaces objects."""
        folder = self.server.bucket_folder(self.name)
        for key, data in content.items():
            put_object(folder, key, data)

    def remove(self, key: str) -> None:
        (self.server.bucket_folder(self.name) / key).unlink()

    def stop_server(self) -> None:
        self.server.stop()


def shell_of(home: Path, server: S3Server | None = None) -> Shell:
    """`headrace` in a home of its own, which has a profile with the server's keys if there is one."""
    (home / "run").mkdir(parents=True, mode=0o700)
    if server is not None:
        _write_profile(home / ".aws", server)
    # Else root's mounts of other tests would be listed, too, which may be killed in the moment in which one asks.
    return Shell(home, {"HEADRACE_RUNTIME_DIR": str(home / "run")})


def _write_profile(folder: Path, server: S3Server) -> None:
    folder.mkdir()
    keys = {name.lower(): value for name, value in server.credentials.environment().items()}
    lines = "".join(f"{name} = {value}\n" for name, value in keys.items())
    (folder / "credentials").write_text(f"[default]\n{lines}")
    (folder / "config").write_text(f"[default]\nregion = {server.region}\n")


def exposed_shell_of(home: Path, server: S3Server) -> Shell:
    """The same with the keys in its variables, so that no process of a mount may be a copy of one that has them."""
    shell = shell_of(home)
    shell.environment |= {**server.credentials.environment(), "AWS_REGION": server.region}
    return shell


class RangeHandler(http.server.SimpleHTTPRequestHandler):
    """Python's server with byte ranges, as every real web server has them."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        if match is None or not path.is_file():
            super().do_GET()
            return
        start, last = int(match[1]), min(int(match[2]), path.stat().st_size - 1)
        body = path.read_bytes()[start : last + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{last}/{path.stat().st_size}")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""
