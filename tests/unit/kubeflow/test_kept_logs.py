"""Logs in ConfigMaps: what is kept of long ones, and that they are read as they were."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_objects import BEGAN, launcher, mpijob

from headrace.kubeflow.kept_logs import LogWindow, config_maps, kept_logs, limit_bytes, moment_of, shown


def lines(count: int, width: int = 60) -> list[bytes]:
    source = random.Random(1)
    return [
        (BEGAN + timedelta(seconds=number)).isoformat().replace("+00:00", "Z").encode()
        + b" "
        + source.randbytes(width // 2).hex().encode()
        + b"\n"
        for number in range(count)
    ]


@given(
    st.lists(st.binary(max_size=30).map(lambda each: each.replace(b"\n", b"") + b"\n")), st.integers(16, 400)
)
def test_a_window_keeps_the_beginning_and_the_end(said: list[bytes], limit: int) -> None:
    window = LogWindow(limit)
    for line in said:
        window.add(line)
    whole, kept = b"".join(said), window.text()
    if sum(map(len, said)) <= limit // 8 or not window.left_out_bytes:
        assert kept == whole
    else:
        assert b"bytes of this log were not kept" in kept
        end = kept.rpartition(b"were not kept]\n")[2]
        assert whole.endswith(end)
        assert len(kept) <= limit + 120


def test_a_long_log_is_read_as_it_was_from_its_parts() -> None:
    text = b"".join(lines(40_000))
    parts = config_maps(mpijob(), launcher(), "mpi", text)
    assert len(parts) > 1
    (log,) = kept_logs(mpijob(), reversed(parts))
    assert b"".join(log.lines) == text
    assert (log.pod, log.container) == ("resnet-launcher-x7k2p", "mpi")


def test_of_a_log_with_a_lost_part_the_beginning_is_shown() -> None:
    text = b"".join(lines(40_000))
    parts = config_maps(mpijob(), launcher(), "mpi", text)
    (log,) = kept_logs(mpijob(), parts[:1])
    assert text.startswith(b"".join(log.lines))
    assert len(log.lines) > 100


def test_logs_of_an_earlier_job_of_the_same_name_are_not_shown() -> None:
    old = mpijob()
    old["metadata"]["uid"] = "old"
    assert kept_logs(mpijob(), config_maps(old, launcher(), "mpi", b"2026-01-31T09:30:05Z x\n")) == []


def test_an_empty_log_needs_no_object() -> None:
    assert config_maps(mpijob(), launcher(), "mpi", b"") == []


@pytest.mark.parametrize(
    ("tail", "after_s", "expected"),
    [(None, None, 5), (2, None, 2), (0, None, 0), (None, 3, 2), (1, 3, 1), (9, None, 5)],
)
def test_kept_lines_are_chosen_as_those_of_a_pod_are(
    tail: int | None, after_s: int | None, expected: int
) -> None:
    said = lines(5)
    since = BEGAN + timedelta(seconds=after_s) if after_s is not None else None
    found = shown(said, since=since, tail=tail, timestamps=False)
    assert found == [line.partition(b" ")[2] for line in said[len(said) - expected :]]
    assert shown(said, since=since, tail=tail, timestamps=True) == said[len(said) - expected :]


def test_moments_have_nanoseconds() -> None:
    assert moment_of(b"2026-01-31T09:30:00.123456789Z x") == BEGAN + timedelta(microseconds=123456)
    assert moment_of(b"no moment at all") is None


@pytest.mark.parametrize(
    ("pods", "expected"), [(1, 2 << 20), (5, 2 << 20), (33, 256 << 10), (5000, 64 << 10)]
)
def test_many_workers_share_the_room(pods: int, expected: int) -> None:
    assert limit_bytes(is_chief=False, pods=pods) == expected
    assert limit_bytes(is_chief=True, pods=pods) == 8 << 20
