"""Every kind of origin behind the same mount, and keys that no file system can hold."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import shutil
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.cluster.certificates import make_authority, make_certificate
from headrace.testing.oss_objects import OssBucket
from headrace.testing.oss_server import OssServer

from .harness import Shell, tree_of
from .servers import RangeHandler

HOSTILE = {
    "good/plain.txt": b"plain",
    "good/spaces and #?%41+&<>'.txt": b"odd but possible",
    "ünï/日本.bin": b"unicode",
    "good/line\nbreak": b"a newline is a name",
    "../escape": b"relative",
    "a/../../etc/passwd": b"relative",
    "./here": b"relative",
    "empty//segment": b"empty",
    "/leading": b"empty",
    "long/" + "x" * 256: b"too long",
    "fits/" + "y" * 255: b"just fits",
    "utf8-long/" + "é" * 128: b"256 bytes in 128 letters",
    "both": b"the file loses",
    "both/inside": b"the folder stays",
    "marker/": b"",
    "marker-with-content/": b"content without a place",
    "marker-with-content/file": b"below it",
    "deep/" + "/".join(["d" * 200] * 21): b"a path of more than 4096 bytes",
}
RULES = {
    "relative-segment": 3,
    "empty-segment": 2,
    "name-too-long": 2,
    "path-too-long": 1,
    "file-and-folder": 1,
    "folder-marker-content": 1,
}
HELD = [
    "good/plain.txt",
    "good/spaces and #?%41+&<>'.txt",
    "ünï/日本.bin",
    "good/line\nbreak",
    "fits/" + "y" * 255,
    "both/inside",
    "marker-with-content/file",
]


@contextlib.contextmanager
def serving(
    folder: Path, context: ssl.SSLContext | None = None, handler: type[RangeHandler] = RangeHandler
) -> Iterator[str]:
    """The address of a web server over a folder, by TLS if there is a context."""
    answering = functools.partial(handler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), answering)
    if context is not None:
        # The handshake is then a connection's own thread's, and one that fails stops no other.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.handle_error = lambda *_: None
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def oss_options(oss: OssServer, tmp_path: Path) -> dict[str, str]:
    secret = tmp_path / "oss-secret"
    secret.write_text(oss.keys.access_key_secret)
    secret.chmod(0o600)
    return {
        "fs.oss.endpoint": oss.endpoint,
        "fs.oss.path.style.access": "true",
        "fs.oss.accessKeyId": oss.keys.access_key_id,
        "fs.oss.accessKeySecret": f"@{secret}",
    }


@pytest.fixture
def oss_bucket(oss: OssServer) -> OssBucket:
    return oss.buckets.setdefault("data", OssBucket())


def test_an_oss_bucket_is_mounted_by_its_own_protocol(
    shell: Shell, oss, oss_bucket, oss_options, tmp_path
) -> None:
    content = {f"part/{number:04}": os.urandom(500 + number) for number in range(230)}
    content["large"] = os.urandom(3_000_000)
    for key, data in content.items():
        oss_bucket.put(key, data)
    with shell.mounted(
        "oss://data", tmp_path / "mnt", cache=tmp_path / "cache", options=oss_options
    ) as mountpoint:
        assert tree_of(mountpoint) == content
        assert shell.status(mountpoint)["reads"]["origin_bytes"] == sum(map(len, content.values()))
    assert not [answer for answer in oss.requests if answer.endswith(("400", "403", "404"))]


def test_a_wrong_oss_secret_is_refused_in_words(shell: Shell, oss, oss_bucket, oss_options, tmp_path) -> None:
    oss_bucket.put("a", b"1")
    (tmp_path / "oss-secret").write_text("not-the-secret-at-all")
    (tmp_path / "mnt").mkdir()
    words = [word for name, value in oss_options.items() for word in ("--option", f"{name}={value}")]
    outcome = shell.run("mount", "oss://data", tmp_path / "mnt", "--cache", f"{tmp_path}/c:1Gi", *words)
    assert outcome.code == 5, outcome.talk
    assert "data" in outcome.stderr
    assert "hint:" in outcome.stderr
    assert "not-the-secret-at-all" not in outcome.talk


def test_hostile_keys_are_left_out_counted_and_named(
    shell: Shell, oss, oss_bucket, oss_options, tmp_path
) -> None:
    for key, data in HOSTILE.items():
        oss_bucket.put(key, data)
    before = {path.name for path in tmp_path.iterdir()}
    with shell.mounted(
        "oss://data", tmp_path / "mnt", cache=tmp_path / "cache", options=oss_options
    ) as mountpoint:
        assert tree_of(mountpoint) == {key: HOSTILE[key] for key in HELD}
        assert (mountpoint / "marker").is_dir()
        snapshot = shell.status(mountpoint)["snapshot"]
        assert dict(snapshot["rejected_by_rule"]) == RULES
        assert snapshot["rejected_keys"] == sum(RULES.values())
        told = shell.must("status", mountpoint).stdout
        for rule in RULES:
            assert rule in told
        assert "../escape" in told
        shell.must("warm", mountpoint)
        shell.must("verify", mountpoint)
    assert {path.name for path in tmp_path.iterdir()} - before <= {"mnt", "cache", "home"}, (
        "something escaped"
    )


def test_control_characters_in_names_do_not_reach_the_terminal(
    shell, oss, oss_bucket, oss_options, tmp_path
) -> None:
    oss_bucket.put("a/../\x1b[31mred", b"x")
    oss_bucket.put("fine\x1b[2J", b"y")
    with shell.mounted(
        "oss://data", tmp_path / "mnt", cache=tmp_path / "cache", options=oss_options
    ) as mountpoint:
        for words in (["status", mountpoint], ["status"]):
            assert "\x1b" not in shell.must(*words).talk


@pytest.fixture
def website(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """(address, folder) of a web server with index pages."""
    folder = tmp_path / "www"
    folder.mkdir()
    with serving(folder) as address:
        yield address, folder


def test_a_web_folder_is_mounted_by_its_index_pages(shell: Shell, website, tmp_path: Path) -> None:
    address, folder = website
    content = {"set/a b.bin": os.urandom(70_000), "set/#1+%41&.txt": b"odd", "set/sub/ünï": b"deep"}
    content["set/large"] = os.urandom(5_000_000)
    for name, data in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    with shell.mounted(f"{address}/set", tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        assert tree_of(mountpoint) == {name.removeprefix("set/"): data for name, data in content.items()}


class SilentHandler(RangeHandler):
    """Tells nothing of a file's version, but for those called `told`."""

    def send_header(self, keyword: str, value: str) -> None:
        if keyword.lower() not in ("etag", "last-modified") or self.path.endswith("/told"):
            super().send_header(keyword, value)


def test_what_a_web_server_tells_no_version_of_is_not_pieced_together(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "www"
    folder.mkdir()
    (folder / "silent").write_bytes(os.urandom(9_000_000))
    with serving(folder, handler=SilentHandler) as address:
        (tmp_path / "mnt").mkdir()
        refused = shell.run("mount", address, tmp_path / "mnt", "--cache", "none")
        assert refused.code != 0
        assert "tells neither ETag nor Last-Modified" in refused.stderr
        assert "have the server send one of them" in refused.stderr
        (folder / "told").write_bytes(b"content")
        with shell.mounted(address, tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
            assert tree_of(mountpoint) == {"told": b"content"}
            snapshot = shell.status(mountpoint)["snapshot"]
            assert snapshot["rejected_by_rule"] == [["no-version", 1]]
            assert snapshot["rejected"] == [{"key": "silent", "reason": "no-version"}]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=str)
def test_tls_is_spoken_with_whom_the_machine_trusts_and_with_nobody_else(
    shell: Shell, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    make_authority(tmp_path)
    make_certificate(tmp_path, "server", "127.0.0.1")
    (tmp_path / "www").mkdir()
    content = os.urandom(300_000)
    (tmp_path / "www" / "file").write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = version
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    with serving(tmp_path / "www", context) as address:
        (tmp_path / "mnt").mkdir()
        refused = shell.run("mount", address, tmp_path / "mnt", "--cache", "none")
        assert refused.code != 0
        assert "is not trusted" in refused.stderr
        assert "SSL_CERT_FILE" in refused.stderr
        shell.environment["SSL_CERT_FILE"] = str(tmp_path / "authority.pem")
        with shell.mounted(address, tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
            assert (mountpoint / "file").read_bytes() == content


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_another(shell: Shell, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_bytes(b"a" * 9_000_000)
    (source / "stays").write_bytes(b"s")
    cache = tmp_path / "cache"

    def replace(content: bytes) -> None:
        """As `cp -p`, `rsync -t` and `mv` leave it."""
        (tmp_path / "other").write_bytes(content)
        shutil.copystat(source / "file", tmp_path / "other")
        (tmp_path / "other").rename(source / "file")

    with shell.mounted(source, tmp_path / "mnt", cache=cache) as mountpoint:
        assert (mountpoint / "file").read_bytes() == b"a" * 9_000_000
        replace(b"b" * 9_000_000)
        assert "1 changed" in shell.must("refresh", mountpoint).talk
        assert (mountpoint / "file").read_bytes() == b"b" * 9_000_000
    replace(b"c" * 9_000_000)
    with shell.mounted(source, tmp_path / "mnt", cache=cache) as mountpoint:
        assert (mountpoint / "file").read_bytes() == b"c" * 9_000_000


def test_special_files_are_left_out_and_counted_unless_strict(shell: Shell, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_bytes(b"content")
    os.mkfifo(source / "pipe")
    (tmp_path / "mnt").mkdir()
    strict = ("--option", "strict=true", "--cache", "none")
    refused = shell.run("mount", source, tmp_path / "mnt", *strict)
    assert refused.code != 0
    assert "'pipe' (special-file)" in refused.stderr
    with shell.mounted(source, tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        assert os.listdir(mountpoint) == ["file"]
        assert shell.status(mountpoint)["snapshot"]["rejected_by_rule"] == [["special-file", 1]]


def test_what_is_excluded_is_not_there_and_other_patterns_list_anew(shell: Shell, tmp_path: Path) -> None:
    source, cache = tmp_path / "source", tmp_path / "cache"
    for name in ("keep", "@eaDir/x", "sub/.git/y", "sub/z.tmp", "other/.git/q"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    words = ("--exclude", "@eaDir/", "--exclude", "/sub/.git/", "--exclude", "*.tmp", "--strict")
    (tmp_path / "mnt").mkdir()
    refused = shell.run("mount", source, tmp_path / "mnt", "--exclude", "[a", "--cache", "none")
    assert refused.code == 3
    assert "--exclude '[a': the pattern opens a bracket that is not closed" in refused.stderr
    with shell.mounted(source, tmp_path / "mnt", *words, cache=cache) as mountpoint:
        assert sorted(tree_of(mountpoint)) == ["keep", "other/.git/q"]
        told = shell.status(mountpoint)["snapshot"]
        assert (told["rejected_by_rule"], told["rejected_keys"]) == ([["excluded", 3]], 0)
        shown = shell.must("status", mountpoint).stdout
        assert "3 names, by @eaDir/, /sub/.git/, *.tmp" in shown
        assert "rejected" not in shown
        (source / "new.tmp").write_text("n")
        assert "0 added" in shell.must("refresh", mountpoint).talk
        listing = ("ls", source, "--cache", f"{cache}:1Gi")
        assert "@eaDir" not in shell.must(*listing).stdout, "as whoever mounted it wants it"
        refused = shell.run(*listing, "--exclude", "*.o")
        assert "in use by a process that excludes @eaDir/, /sub/.git/, *.tmp" in refused.stderr
    words = ("--exclude", ".git/", "--snapshot", "keep")
    with shell.mounted(source, tmp_path / "mnt", *words, cache=cache) as mountpoint:
        assert sorted(tree_of(mountpoint)) == ["@eaDir/x", "keep", "new.tmp", "sub/z.tmp"]


def test_a_folder_with_odd_names_is_mounted_as_it_is(shell: Shell, tmp_path: Path) -> None:
    source = os.fsencode(tmp_path / "source")
    names = [
        b"with space",
        b"new\nline",
        b"not-utf8-\xff\xfe",
        b"-dash",
        b"tab\t",
        b"$(touch x)",
        b"y" * 255,
        b"\\x41",
    ]
    os.mkdir(source)
    for number, name in enumerate(names):
        with open(os.path.join(source, name), "wb") as file:
            file.write(b"%d" % number)
    with shell.mounted(
        f"local://{tmp_path}/source", tmp_path / "mnt", cache=tmp_path / "cache"
    ) as mountpoint:
        root = os.fsencode(mountpoint)
        assert sorted(os.listdir(root)) == sorted(names)
        for number, name in enumerate(names):
            with open(os.path.join(root, name), "rb") as file:
                assert file.read() == b"%d" % number
        shell.must("warm", mountpoint)
        # As `ls` does into a pipe: the names' own bytes.
        listed = os.fsencode(shell.must("ls", mountpoint).stdout)
        assert listed == b"".join(name + b"\n" for name in sorted(names))
        assert shell.status(mountpoint)["snapshot"]["rejected_keys"] == 0
