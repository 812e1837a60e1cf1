from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.settings.cache_words import parse_cache
from headrace.settings.environment import Environment
from headrace.settings.toml_files import dataset_settings, mount_settings, read_file


def environment(tmp_path: Path, text: str) -> Environment:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return Environment({"HOME": str(tmp_path), "HEADRACE_CONFIG": str(file)})


def test_file_gives_defaults_and_the_command_line_wins(tmp_path: Path) -> None:
    file = read_file(
        environment(
            tmp_path,
            '[dataset]\ncache = ["/ssd:1Gi"]\nmemory = "1Gi"\n'
            '[dataset.options]\n"fs.oss.endpoint" = "e"\nregion = "r"\n'
            '[mount]\nmode = "classic"\n',
        )
    )
    dataset = dataset_settings(file["dataset"], memory="2Gi", block_size=None, options={"region": "given"})
    assert (dataset.cache, dataset.memory, dataset.block_size) == ((parse_cache("/ssd:1Gi"),), "2Gi", "4Mi")
    assert dataset.options == {"fs.oss.endpoint": "e", "region": "given"}
    assert mount_settings(file["mount"], allow_other=True).mode == "classic"


def test_without_a_file_everything_is_default(tmp_path: Path) -> None:
    file = read_file(Environment({"HOME": str(tmp_path)}))
    assert dataset_settings(file["dataset"]).cache is None


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[dataset\n", "is not valid TOML", ""),
        ("[datasets]\n", "unknown table or key 'datasets'", "[dataset] and [mount]"),
        ("memory = 1\n", "unknown table or key 'memory'", ""),
        ("[dataset]\nmemry = '1Gi'\n", "unknown setting 'memry'", "did you mean 'memory'?"),
        ("[dataset]\nretries = 'many'\n", "setting 'retries'", ""),
        ("[mount]\nmode = 'fast'\n", "setting 'mode'", ""),
    ],
)
def test_wrong_file_is_one_clear_error(tmp_path: Path, text: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        file = read_file(environment(tmp_path, text))
        dataset_settings(file["dataset"])
        mount_settings(file["mount"])
    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")


def test_credential_in_a_wrong_place_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        dataset_settings(
            read_file(environment(tmp_path, "[dataset]\nretries = 'PLANTED-SECRET'\n"))["dataset"]
        )
    assert "PLANTED" not in f"{caught.value} {caught.value.hint} {caught.value!r}"


def test_named_file_must_be_there() -> None:
    with pytest.raises(ConfigError, match="/absent"):
        read_file(Environment({"HEADRACE_CONFIG": "/absent"}))
