"""Durations and paths as kubectl's words have them."""

from __future__ import annotations

import pytest

from headrace.api.go_durations import parse_duration
from headrace.api.json_paths import parse_json_path, text_of, value_of
from headrace.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("1m30s", 90), ("2h", 7200), ("250ms", 0.25), ("0", 0), ("1.5m", 90)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "soon", "-5s", "5 s s", "1d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a duration"):
        parse_duration(text)


CONTENT = {"status": {"phase": "Bound", "mounts": [{"name": "a"}, {"name": "b"}], "cache.x": 1, "ok": True}}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("{.status.phase}", "Bound"),
        (".status.phase", "Bound"),
        ("status.phase", "Bound"),
        ("{$.status.mounts[1].name}", "b"),
        ("{.status.mounts[-1].name}", "b"),
        ("{.status['cache.x']}", "1"),
        (r"{.status.cache\.x}", "1"),
        ("{.status.ok}", "true"),
        ("{.status.mounts[7].name}", ""),
        ("{.status.phase.deeper}", ""),
        ("{.status.mounts[0]}", '{"name":"a"}'),
    ],
)
def test_paths_lead_to_values(path: str, text: str) -> None:
    assert text_of(value_of(CONTENT, parse_json_path(path))) == text


@pytest.mark.parametrize("path", ["{.a..b}", "{.a[x]}", "{.a[*]}", "{range .items}"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="is not a path"):
        parse_json_path(path)
