"""The real S3 server behind its links. Each test starts one, about 0.2 s: that is what is tested."""

import os
import signal
import subprocess
import sys
import time

import pytest

from headrace.netns import namespaces
from headrace.testing import network
from headrace.testing.buckets import adopt_folder
from headrace.testing.s3_client import Credentials, S3Client
from headrace.testing.s3_server import S3Server, versitygw_program

MEBIBYTE = 1 << 20

try:
    versitygw_program()
except FileNotFoundError as missing:
    pytest.skip(str(missing), allow_module_level=True)

needs_root = pytest.mark.skipif(not namespaces.can_make_namespaces(), reason="network namespaces need root")


@pytest.fixture
def server(tmp_path):
    with S3Server(tmp_path / "buckets", state=tmp_path / "state") as running:
        yield running


def test_seeded_files_are_objects_with_etags_and_conditions(server):
    folder = server.bucket_folder("data")
    (folder / "a").mkdir()
    (folder / "a" / "b ä&+").write_bytes(b"content")
    assert adopt_folder(folder) == 1
    client = server.client()
    listed = list(client.list_objects("data"))
    assert [(found.key, found.size_bytes) for found in listed] == [("a/b ä&+", 7)]
    # The MD5 of "content", as a PUT would have given it.
    assert listed[0].etag == '"9a0364b9e99bb480dd25e1f0284c8555"'
    assert client.request("GET", "/data/a/b ä&+", headers={"If-Match": listed[0].etag}).body == b"content"
    assert client.request("GET", "/data/a/b ä&+", headers={"If-Match": '"other"'}).status == 412


def test_uploads_and_long_listings(server):
    client = server.client()
    client.create_bucket("uploads")
    keys = [f"{number:02d}" for number in range(25)]
    for key in keys:
        client.put("uploads", key, key.encode())
    assert [found.key for found in client.list_objects("uploads", page_size=10)] == keys
    assert client.get("uploads", "07") == b"07"
    assert server.requests() == {"CreateBucket": 1, "PutObject": 25, "ListObjectsV2": 3, "GetObject": 1}


def test_a_wrong_secret_is_refused(server):
    server.bucket_folder("data")
    wrong = S3Client(server.endpoint, Credentials(server.credentials.access_key_id, "wrong"))
    assert wrong.request("GET", "/data").status == 403


@pytest.mark.parametrize("kind", [pytest.param(network.NamespaceLink, marks=needs_root), network.ProxyLink])
def test_a_link_limits_and_counts(tmp_path, kind):
    content = os.urandom(4 * MEBIBYTE)
    with (
        kind(80_000_000) as link,
        S3Server(tmp_path / "buckets", state=tmp_path / "state", link=link) as server,
    ):
        (server.bucket_folder("data") / "file").write_bytes(content)
        before, started = link.received_bytes(), time.monotonic()
        assert server.client().get("data", "file") == content
        elapsed_s = time.monotonic() - started
        counted = link.received_bytes() - before
    assert len(content) < counted < len(content) * 1.05
    # 4 MiB at 10 MB/s take 0.42 s, less what the bucket holds at first.
    assert elapsed_s > 0.35


@needs_root
def test_a_killed_parent_leaves_neither_server_nor_namespace(tmp_path):
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from headrace.testing.network import NamespaceLink\n"
        "from headrace.testing.s3_server import S3Server\n"
        "link = NamespaceLink(None)\n"
        f"server = S3Server(Path({str(tmp_path)!r}) / 'b', state=Path({str(tmp_path)!r}) / 's', link=link)\n"
        "print(link.namespace, server.process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        namespace, pid = parent.stdout.readline().split()
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{pid}")
    # Any other test that makes namespaces may have taken it away by now.
    namespaces.remove_stale_namespaces()
    assert namespace not in listed_namespaces()


def listed_namespaces():
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
