from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.roles.cluster.host_addresses import advertised_address, host_name, listening_address
from headrace.roles.cluster.incarnation import next_incarnation
from headrace.settings.addresses import parse_master_url


@pytest.mark.parametrize(
    ("advertise", "listening", "address"),
    [
        ("node-7", "0.0.0.0:8701", "node-7:8701"),
        ("node-7:1", "0.0.0.0:8701", "node-7:1"),
        ("[::1]:5", "0.0.0.0:8701", "[::1]:5"),
        ("[::1]", "0.0.0.0:8701", "[::1]:8701"),
        (None, "198.18.0.1:8701", "198.18.0.1:8701"),
        (None, "0.0.0.0:8701", "127.0.0.1:8701"),
    ],
)
def test_the_address_for_others(advertise: str | None, listening: str, address: str) -> None:
    assert advertised_address(advertise, listening, "http://127.0.0.1:8700") == address


def test_listening_takes_numbers() -> None:
    assert listening_address(":8701") == "0.0.0.0:8701"
    assert listening_address("127.0.0.1:0") == "127.0.0.1:0"
    with pytest.raises(ConfigError, match="cannot listen on"):
        listening_address("no-such-host.invalid:1")


def test_the_name_of_this_machine_can_be_an_id() -> None:
    assert host_name()
    assert host_name().replace("-", "").replace(".", "").replace("_", "").isalnum()


def test_incarnations_grow_whatever_the_clock_does(tmp_path: Path) -> None:
    assert next_incarnation(tmp_path, 100) == 100
    assert next_incarnation(tmp_path, 50) == 101
    (tmp_path / "incarnation").write_text("damaged")
    assert next_incarnation(tmp_path, 60) == 60


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://h:8700/", "http://h:8700"),
        ("h:8700", "http://h:8700"),
        ("https://h", "https://h"),
        ("http://[::1]:1", "http://[::1]:1"),
    ],
)
def test_a_master_is_named_by_its_url(text: str, url: str) -> None:
    assert parse_master_url(text) == url


@pytest.mark.parametrize(
    "text", ["", "ftp://h:1", "http://", "http://PLANTED:x@h:1", "http://h:1/path", "http://h:99999999"]
)
def test_what_is_no_master_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_master_url(text)
    assert "PLANTED" not in str(raised.value)
