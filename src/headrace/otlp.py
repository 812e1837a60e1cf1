"""Metrics by OTLP, for whoever collects with OpenTelemetry: what `/metrics` tells, sent to a collector now and then.

Off unless a standard variable names a collector. The SDK of OpenTelemetry reads its variables by itself (address,
headers, certificates, timeout, compression, attributes of the resource), and sends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from headrace import provenance
from headrace.errors import ConfigError
from headrace.settings.environment import Environment

_log = logging.getLogger("headrace.otlp")

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
_INTERVAL_MS = 60_000
_SHORTEST_INTERVAL_MS = 100
# A process that ends does not wait for a collector that does not answer.
_LAST_S = 2.0
_POD = {"k8s.pod.name": "POD_NAME", "k8s.namespace.name": "POD_NAMESPACE"}


@contextlib.asynccontextmanager
async def exported(
    service: str, metrics: Callable[[], str], environment: Environment | None = None
) -> AsyncIterator[None]:
    """Sends what `metrics` tells, in the OpenMetrics format, as long as the block lasts, and once more at its end.

    Does nothing where no collector is named. A collector that cannot be reached costs a line in the log. Raises
    `ConfigError` for variables that make no sense.
    """
    own = environment or Environment.current()
    if not is_asked(own):
        yield
        return
    export = _Export(service, metrics, own)
    task = asyncio.create_task(export.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await export.close()


def is_asked(environment: Environment) -> bool:
    """True where a collector is named, and nothing forbids to send metrics."""
    kinds = (environment.get("OTEL_METRICS_EXPORTER") or "otlp").split(",")
    disabled = (environment.get("OTEL_SDK_DISABLED") or "").lower() == "true"
    return environment.first(_ENDPOINTS) is not None and "otlp" in map(str.strip, kinds) and not disabled


class _Export:
    """What sends; its state is that of the exporter of OpenTelemetry's SDK."""

    def __init__(self, service: str, metrics: Callable[[], str], environment: Environment) -> None:
        self._interval_s = interval_s(environment)
        _check_protocol(environment)
        # Here: the package is an extra, and takes a while to load.
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415

        self._exporter = OTLPMetricExporter()
        self._resource = _resource(service, environment)
        self._metrics = metrics
        self._started_ns = time.time_ns()

    async def run(self) -> None:
        """Sends at each interval, until it is cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self._send()

    async def close(self) -> None:
        """Sends what there is now, if that can be done at once."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._send(), _LAST_S)
        self._exporter.shutdown()

    async def _send(self) -> None:
        try:
            # Told in the loop, whose state it is; sent in a thread, which may have to wait.
            data = metrics_data(self._metrics(), self._resource, self._started_ns, time.time_ns())
            await asyncio.to_thread(self._exporter.export, data)
        except Exception:
            # Whatever a collector answers: nobody's data waits for it.
            _log.exception("otlp: the metrics cannot be sent")


def interval_s(environment: Environment) -> float:
    """The time between two reports, by the standard variable. Raises `ConfigError`."""
    text = environment.get(_INTERVAL) or str(_INTERVAL_MS)
    if not text.isascii() or not text.isdigit() or int(text[:12]) < _SHORTEST_INTERVAL_MS:
        raise ConfigError.of(
            f"{_INTERVAL}={text[:32]}: not a number of milliseconds, {_SHORTEST_INTERVAL_MS} or more",
            hint=f"{_INTERVAL}={_INTERVAL_MS} is a minute",
        )
    return int(text[:12]) / 1000


def _check_protocol(environment: Environment) -> None:
    protocol = environment.first(_PROTOCOLS) or _PROTOCOL
    if protocol != _PROTOCOL:
        raise ConfigError.of(
            f"metrics are sent by {_PROTOCOL}, not by {protocol[:32]}",
            hint=f"OTEL_EXPORTER_OTLP_PROTOCOL={_PROTOCOL}, and the collector's port for it, by default 4318",
        )


def _resource(service: str, environment: Environment) -> Any:
    """Who sends: OpenTelemetry's own variables weigh more than what is known here."""
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415

    known = {key: value for key, name in _POD.items() if (value := environment.get(name))}
    known |= {"service.name": service, "service.version": provenance.version()}
    said = Resource.create()
    is_named = environment.get("OTEL_SERVICE_NAME") or "service.name=" in (
        environment.get("OTEL_RESOURCE_ATTRIBUTES") or ""
    )
    given = {key: value for key, value in said.attributes.items() if key != "service.name" or is_named}
    return Resource({**known, **given})


def metrics_data(text: str, resource: Any, started_ns: int, now_ns: int) -> Any:
    """The metrics of an OpenMetrics text in OpenTelemetry's model: counters as sums since the start, all else as
    gauges.
    """
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics  # noqa: PLC0415
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415
    from prometheus_client.openmetrics.parser import text_string_to_metric_families  # noqa: PLC0415

    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    metrics = [_metric(family, started_ns, now_ns) for family in families if family.samples]
    scope = ScopeMetrics(InstrumentationScope("headrace", provenance.version()), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(family: Any, started_ns: int, now_ns: int) -> Any:
    from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415
        AggregationTemporality,
        Gauge,
        Metric,
        NumberDataPoint,
        Sum,
    )

    def points(start_ns: int) -> Iterable[Any]:
        return [NumberDataPoint(each.labels, start_ns, now_ns, each.value) for each in family.samples]

    data = (
        Sum(points(started_ns), AggregationTemporality.CUMULATIVE, is_monotonic=True)
        if family.type == "counter"
        else Gauge(points(now_ns))
    )
    return Metric(family.name, family.documentation, _UNITS.get(family.unit, ""), data)


_UNITS = {"bytes": "By", "seconds": "s"}
"""As OpenTelemetry writes units."""
