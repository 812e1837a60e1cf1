"""The text that Prometheus reads, read by its own parser."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from headrace.control.metrics import FAMILIES as MASTER
from headrace.csi.metrics import FAMILIES as CSI
from headrace.kubeflow.metrics import FAMILIES as JOBS
from headrace.openmetrics import Family, text_of
from headrace.operator.metrics import FAMILIES as OPERATOR
from headrace.webhook.metrics import FAMILIES as WEBHOOK


def parsed(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.mark.parametrize("families", [MASTER, CSI, JOBS, OPERATOR, WEBHOOK])
def test_each_table_is_read_as_it_was_written(families: Sequence[Family]) -> None:
    text = text_of(families, {family.name: number for number, family in enumerate(families)})
    found = parsed(text)
    assert text.endswith("# EOF\n")
    assert list(found) == [family.name for family in families]
    for number, family in enumerate(families):
        metric = found[family.name]
        assert (metric.type, metric.unit) == (family.kind, family.unit)
        assert metric.documentation == f"{family.meaning}."
        assert [(sample.name, sample.value) for sample in metric.samples] == [(family.sample_name, number)]


@given(values=st.dictionaries(st.text(), st.floats(min_value=0, allow_infinity=False), max_size=4))
def test_labels_of_any_text_are_read_as_they_were_given(values: dict[str, float]) -> None:
    family = Family("headrace_answers", "counter", "", 'Has "quotes", \\ and lines\nof its own')
    samples = [({"word": word, "kind": "a"}, value) for word, value in values.items()]
    metric = parsed(text_of([family], {family.name: samples}))["headrace_answers"]
    assert {sample.labels["word"]: sample.value for sample in metric.samples} == values
    assert metric.documentation == f"{family.meaning}."


def test_numbers_beyond_what_floats_show_at_once_are_exact() -> None:
    family = Family("headrace_cached_bytes", "gauge", "bytes", "Bytes")
    (sample,) = parsed(text_of([family], {family.name: 2**52 + 1}))["headrace_cached_bytes"].samples
    assert sample.value == 2**52 + 1
