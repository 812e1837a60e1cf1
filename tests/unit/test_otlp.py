"""Metrics by OTLP: a collector gets what `/metrics` tells if a standard variable names it, and nobody waits for it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from collector import Collector

from headrace import otlp
from headrace.errors import ConfigError
from headrace.openmetrics import Family, text_of
from headrace.settings.environment import Environment

FAMILIES = (
    Family("headrace_test_requests", "counter", "", "Requests, by path"),
    Family("headrace_test_cached_bytes", "gauge", "bytes", "Bytes cached"),
    Family("headrace_test_nothing", "gauge", "", "Nothing, by nobody"),
)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


def _text() -> str:
    samples = {
        "headrace_test_requests": [({"path": "/a"}, 3), ({"path": "/b"}, 4)],
        "headrace_test_cached_bytes": 1 << 40,
        "headrace_test_nothing": [],
    }
    return text_of(FAMILIES, samples)


def _set(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


async def _export_until(collector: Collector, number: int) -> None:
    async with otlp.exported("headrace-test", _text):
        await asyncio.to_thread(collector.wait_for, number)


def test_a_collector_gets_every_metric_with_its_labels_unit_and_kind(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint, OTEL_METRIC_EXPORT_INTERVAL="100")
    asyncio.run(_export_until(collector, 2))
    report = collector.reports[0]
    requests, cached = (report.metrics[f"headrace_test_{name}"] for name in ("requests", "cached_bytes"))
    points = {point.attributes[0].value.string_value: point.as_double for point in requests.sum.data_points}
    assert points == {"/a": 3, "/b": 4}
    assert requests.sum.is_monotonic
    assert requests.description == "Requests, by path."
    assert [point.as_double for point in cached.gauge.data_points] == [1 << 40]
    assert cached.unit == "By"
    assert set(report.metrics) == {"headrace_test_requests", "headrace_test_cached_bytes"}


def test_sums_begin_where_the_process_did(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint, OTEL_METRIC_EXPORT_INTERVAL="100")
    before_ns = time.time_ns()
    asyncio.run(_export_until(collector, 2))
    points = [each.metrics["headrace_test_requests"].sum.data_points[0] for each in collector.reports[:2]]
    assert points[0].start_time_unix_nano == points[1].start_time_unix_nano >= before_ns
    assert points[0].time_unix_nano < points[1].time_unix_nano


def test_the_sender_is_named_with_its_pod_and_the_standard_variables_weigh_more(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=one"}
    _set(monkeypatch, **said, POD_NAME="operator-0", POD_NAMESPACE="headrace-system")
    asyncio.run(_export_until(collector, 0))
    attributes = "service.name=ours,k8s.pod.name=other,deployment.environment.name=test"
    _set(monkeypatch, **said, OTEL_RESOURCE_ATTRIBUTES=attributes)
    asyncio.run(_export_until(collector, 0))
    first, second = collector.wait_for(2)
    assert first.resource["service.name"] == "headrace-test"
    assert first.resource["k8s.pod.name"] == "operator-0"
    assert first.resource["k8s.namespace.name"] == "headrace-system"
    assert first.headers["x-tenant"] == "one"
    assert second.resource["service.name"] == "ours"
    assert second.resource["k8s.pod.name"] == "other"
    assert second.resource["deployment.environment.name"] == "test"


@pytest.mark.parametrize(
    ("variables", "asked"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/v1/metrics"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_METRICS_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_METRICS_EXPORTER": "console, otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "True"}, False),
    ],
)
def test_it_is_off_unless_a_collector_is_named(variables: dict[str, str], asked: bool) -> None:
    assert otlp.is_asked(Environment(variables)) is asked


@pytest.mark.parametrize("text", ["0", "99", "-1", "1.5", "soon", "१००"])
def test_an_interval_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="OTEL_METRIC_EXPORT_INTERVAL"):
        otlp.interval_s(Environment({"OTEL_METRIC_EXPORT_INTERVAL": text}))


def test_another_protocol_is_refused_with_the_one_that_is_spoken(monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT="http://c:4317", OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    with pytest.raises(ConfigError, match="http/protobuf, not by grpc"):
        asyncio.run(_export_until(Collector(), 0))


def test_a_collector_that_refuses_or_is_away_costs_neither_the_process_nor_its_end(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector.status = 400
    _set(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint, OTEL_METRIC_EXPORT_INTERVAL="100")
    asyncio.run(_export_until(collector, 2))
    _set(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    began_s = time.monotonic()
    asyncio.run(_export_until(collector, 0))
    assert time.monotonic() - began_s < 30


def test_a_master_sends_what_it_counts_while_it_runs_and_at_its_end(
    collector: Collector, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_bytes(b"x")
    command = [sys.executable, "-m", "headrace.cli.main", "master", str(tmp_path / "data"), "--name", "c"]
    command += ["--listen", "127.0.0.1:0", "--state-directory", str(tmp_path / "state")]
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_METRIC_EXPORT_INTERVAL": "200"}
    with (tmp_path / "log").open("wb") as log:
        master = subprocess.Popen(
            command, env={**os.environ, **variables, "HOME": str(tmp_path)}, stdout=log, stderr=log
        )
    try:
        collector.wait_for(2)
        master.send_signal(signal.SIGTERM)
        assert master.wait(60) == 0, (tmp_path / "log").read_text()
    finally:
        master.kill()
        master.wait()
    last = collector.reports[-1]
    assert last.resource["service.name"] == "headrace-master"
    assert last.metrics["headrace_master_snapshot_files"].gauge.data_points[0].as_double == 1
