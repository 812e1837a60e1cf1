"""Who may read what: the storage's keys stay with the workers, the token is asked for and never sent, TLS hides all."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.control.cluster_token import read_token
from headrace.control.rights import Rights, derive
from headrace.process.stat import process_tree
from headrace.testing.cluster import Capability, ClusterBed, Node, words
from headrace.testing.cluster.cluster_bed import CommandError, wait_until
from headrace.testing.cluster.content import make_files
from headrace.testing.cluster.memory import places_that_hold

from .conftest import PATIENT

MEBIBYTE = 1 << 20
FILES = make_files(8, MEBIBYTE)
DEADLINE_S = 120.0
MARK = b"a mark that the network may carry only in clear"


def test_a_mount_never_holds_the_keys_of_the_storage(make_cluster) -> None:
    cluster = make_cluster(2, FILES)
    node = cluster.node(0)
    cluster.reading(node).finish()
    secret = cluster.server.credentials.secret_access_key.encode()
    assert any(places_that_hold(pid, secret) for pid in process_tree(cluster.worker(0).pid)), (
        "the search finds nothing even where the keys must be"
    )
    for pid in cluster.mount_processes(node):
        assert not places_that_hold(pid, secret)
    assert cluster.mount(0).is_running()
    kept = [path for path in (node.state_folder / "mount").rglob("*") if path.is_file()]
    assert not [path for path in kept if secret in path.read_bytes()]


@pytest.mark.parametrize("role", ["worker", "mount"])
def test_a_wrong_token_is_refused(make_cluster, role: str) -> None:
    cluster = make_cluster(1, FILES, start=False)
    cluster.start_master()
    node = cluster.node(0)
    if role == "mount":
        cluster.start_worker(node)
    wrong = cluster.write_secret("wrong-token", "another-token-0123456789abcdef\n")
    start = cluster.start_worker if role == "worker" else cluster.start_mount
    process = start(node, wait=False, token_file=str(wrong))
    wait_until(lambda: "token" in process.log_tail().lower(), "a word about the token", timeout_s=DEADLINE_S)
    assert "another-token" not in process.log_path.read_text()
    if role == "worker":
        assert not cluster.status().workers
    else:
        assert not cluster.is_mounted(node)


def test_readers_and_workers_have_tokens_that_allow_what_they_need(make_cluster) -> None:
    """Mounts with a reader's token and, as an upgrade leaves them, with the whole one, at a worker with a worker's."""
    cluster = make_cluster(2, FILES, start=False)
    whole = read_token(cluster.token_file)
    derived = {rights: derive(whole, rights).get_secret_value() for rights in (Rights.READER, Rights.WORKER)}
    reader, worker = (cluster.write_secret(rights.name, text) for rights, text in derived.items())
    cluster.start_master()
    refused = cluster.start_worker(cluster.node(0), wait=False, token_file=str(reader))
    wait_until(
        lambda: not refused.is_running(), "an end of the worker with a reader's token", timeout_s=DEADLINE_S
    )
    assert "a reader's token is not enough" in refused.log_path.read_text()
    cluster.start_worker(cluster.node(0), token_file=str(worker))
    for node, token_file in ((cluster.node(0), reader), (cluster.node(1), cluster.token_file)):
        cluster.start_mount(node, token_file=str(token_file))
        reading = cluster.reading(node)
        reading.finish()
        assert not cluster.content.wrong(reading.files())
        assert not [file.error for file in reading.files() if file.error]
    with pytest.raises(CommandError, match="a reader's token is not enough"):
        cluster.must(words.load_command(cluster.master_url, reader, (), "--evict"))
    with pytest.raises(CommandError, match="a worker's token is not enough"):
        cluster.must(words.drain_command(cluster.master_url, worker, cluster.node(0).name))


def test_the_token_is_never_sent(make_cluster, tmp_path: Path) -> None:
    cluster = make_cluster(2, FILES, start=False)
    cluster.bed.need(Capability.LINKS)
    ports = {"peers": words.WORKER_PORT, "control": words.MASTER_PORT}
    heard = {name: listen_on(cluster.node(0), port, tmp_path / name) for name, port in ports.items()}
    cluster.start()
    read_on_both(cluster)
    token = cluster.token_file.read_bytes().strip()
    for path in heard.values():
        until_heard(path, 1000, "anything")
        assert token not in path.read_bytes()


@pytest.mark.parametrize("with_tls", [False, True], ids=["in clear", "with TLS"])
def test_with_tls_a_listener_learns_nothing(make_cluster, tmp_path: Path, with_tls: bool) -> None:
    marked = {f"marked/{number}": MARK * 20_000 + bytes([number]) for number in range(12)}
    cluster = make_cluster(2, marked, replace(PATIENT, with_tls=with_tls, with_https=with_tls), start=False)
    cluster.bed.need(Capability.LINKS)
    heard = listen_on(cluster.node(0), words.WORKER_PORT, tmp_path / "heard")
    control = listen_on(cluster.node(0), words.MASTER_PORT, tmp_path / "control")
    cluster.start()
    read_on_both(cluster)
    until_heard(heard, MEBIBYTE, "a file that came from the other node")
    assert (MARK in heard.read_bytes()) is not with_tls
    # The list of files goes by the master; the listener is another process, and hears it a little later.
    if with_tls:
        until_heard(control, 1000, "what the master says")
        assert b"marked" not in control.read_bytes()
    else:
        wait_until(lambda: b"marked" in control.read_bytes(), "the list of files", timeout_s=DEADLINE_S)
    asking = [words.headrace_program(), "status", "--cluster", cluster.master_url, "--json"]
    assert cluster.node(1).name in cluster.must([*asking, "--token-file", str(cluster.token_file)])
    assert cluster.node(1).name not in cluster.must(asking)


def test_a_worker_with_a_certificate_of_others_is_not_believed(make_cluster, tmp_path: Path) -> None:
    """Two authorities: a mount that trusts one gets nothing from a worker of the other, and says so."""
    from headrace.testing.cluster.certificates import make_authority

    cluster = make_cluster(1, FILES, replace(PATIENT, with_tls=True, read_deadline_s=3.0), start=False)
    cluster.start_master()
    cluster.start_worker(cluster.node(0))
    make_authority(tmp_path / "others")
    cluster.start_mount(cluster.node(0), **words.tls_settings(tmp_path / "others", None))
    reading = cluster.reading(cluster.node(0), only=[sorted(FILES)[0]])
    reading.finish()
    assert reading.files()[0].error
    log = cluster.mount(0).log_path
    wait_until(lambda: "certificate" in log.read_text().lower(), "a word about it", timeout_s=DEADLINE_S)


def read_on_both(cluster: ClusterBed) -> None:
    """Every file goes over the link between the two nodes once, whichever of them is its owner."""
    for node in cluster.bed.nodes:
        reading = cluster.reading(node)
        reading.finish()
        assert not cluster.content.wrong(reading.files())


def listen_on(node: Node, port: int, path: Path) -> Path:
    """Keeps what TCP carries over a node's link; the file."""
    program = "headrace.testing.cluster.sniffer"
    listener = node.run([sys.executable, "-m", program, "eth0", str(port), path], name=f"sniffer-{port}")
    listener.wait_until(lambda: b"ready" in listener.log_path.read_bytes())
    return path


def until_heard(path: Path, size_bytes: int, what: str) -> None:
    """The listener is another process: it hears a little later."""
    wait_until(lambda: path.stat().st_size > size_bytes, what, timeout_s=DEADLINE_S)
