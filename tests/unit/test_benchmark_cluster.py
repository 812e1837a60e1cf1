"""The measurements of the cluster, on a bed without a cluster."""

from __future__ import annotations

import os

import pytest
from benchmarks.contenders import Source
from benchmarks.report.markdown import write_markdown
from benchmarks.report.record import Run
from benchmarks.samples import Samples
from benchmarks.settings import QUICK
from benchmarks.workloads import curl, raw_tcp
from benchmarks.workloads.epochs import Cost, Epoch, run_epoch

from headrace.testing.cluster import Capability, open_bed
from headrace.testing.cluster.content import make_files
from headrace.testing.cluster.reader import Summary
from headrace.testing.s3_server import S3Server

MEBIBYTE = 1 << 20


@pytest.fixture
def bed(tmp_path):
    with open_bed(2, base=tmp_path / "beds") as opened:
        yield opened


@pytest.fixture
def tree(tmp_path):
    files = make_files(3, MEBIBYTE)
    for name, data in files.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "tree"


def test_a_plain_transfer_is_as_fast_as_its_link(bed, tmp_path) -> None:
    first, second = bed.nodes
    path = tmp_path / "file"
    path.write_bytes(os.urandom(MEBIBYTE))
    free = raw_tcp.sendfile(first, second, path, 20 * MEBIBYTE)
    assert free.size_bytes == 20 * MEBIBYTE
    if Capability.LINKS not in bed.capabilities:
        pytest.skip("links of their own need root")
    # So slow that a machine which has little time for the free transfer is faster all the same.
    first.set_rate(20_000_000)
    limited = raw_tcp.sendfile(first, second, path, 4 * MEBIBYTE)
    assert limited.bytes_per_s < 1.05 * 20_000_000 / 8 < free.bytes_per_s


def test_a_plain_client_brings_every_object_and_tells_what_that_cost(tmp_path) -> None:
    with S3Server(tmp_path / "objects", state=tmp_path / "server") as server:
        for name in ("a", "b/c d"):
            path = server.bucket_folder("data") / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(MEBIBYTE))
        source = Source(server.endpoint, "data", "", server.region, server.credentials)
        folder = tmp_path / "fetched"
        folder.mkdir()
        cost = curl.processor_seconds_per_gigabyte(source, ["a", "b/c d"], folder, limit_s=30)
        assert cost > 0
        assert sorted(path.stat().st_size for path in folder.iterdir()) == [MEBIBYTE, MEBIBYTE]
        with pytest.raises(OSError, match="curl failed"):
            curl.processor_seconds_per_gigabyte(source, ["a", "none"], folder, limit_s=30)


def test_an_epoch_reads_everything_everywhere_and_knows_what_it_cost(bed, tree) -> None:
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    cost = Cost([os.getpid()])
    done = run_epoch([(node, tree) for node in bed.nodes], limit_s=30, size_bytes=size)
    assert done.size_bytes == 2 * size
    assert sum(done.waits().values()) >= 2 * size // MEBIBYTE
    assert cost.seconds_per_gigabyte(done) > 0


def test_an_epoch_in_which_bytes_are_missing_is_no_epoch(bed, tree) -> None:
    with pytest.raises(OSError, match="bytes were read"):
        run_epoch([(bed.nodes[0], tree)], limit_s=30, size_bytes=1)


def test_waits_are_told_in_units_for_people_and_stand_in_the_report(tmp_path) -> None:
    summary = Summary(1, 10, 0, 1.0, 0.1, 2.5, {3: 7, 12: 2, 22: 1})
    waits = Epoch(1.0, [summary, summary]).waits()
    assert waits == {"8 µs": 14, "4.1 ms": 4, "4.2 s": 2}
    samples = Samples()
    samples.histograms["How long reads waited"] = waits
    run = Run({}, QUICK, {}, {}, samples, {}, "make bench", drops_caches=True, seconds=1.0)
    write_markdown(run, tmp_path / "report.md", plot="report.png")
    assert (
        "## How long reads waited\n\n| below | count |\n|---|---|\n| 8 µs | 14 |"
        in (tmp_path / "report.md").read_text()
    )
