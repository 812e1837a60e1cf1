"""Whether the storage answers, as a worker's own counters tell."""

from __future__ import annotations

from headrace.roles.cluster.storage_silence import Silence


def text(retries: int) -> str:
    return f"# TYPE headrace_origin_retries counter\nheadrace_origin_retries_total {retries}\n# EOF\n"


def test_tries_without_a_byte_are_silence_until_one_arrives() -> None:
    silence = Silence()
    assert silence.observe(text(0), 100, 10.0) == 0
    assert silence.observe(text(1), 100, 20.0) == 0
    assert silence.observe(text(1), 100, 25.0) == 5
    assert silence.observe(text(4), 100, 50.0) == 30
    assert silence.observe(text(5), 101, 55.0) == 0
    assert silence.observe(text(5), 101, 60.0) == 0


def test_a_storage_that_is_not_asked_is_not_silent() -> None:
    silence = Silence()
    silence.observe(text(1), 0, 10.0)
    assert silence.observe(text(1), 0, 90.0) == 80
    assert silence.observe(text(1), 0, 101.0) == 0
    assert silence.observe(text(2), 0, 200.0) == 0
    assert silence.observe(text(2), 0, 201.0) == 1
