from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.engine.configure import configure
from headrace.errors import ConfigError
from headrace.settings.dataset import DatasetSettings
from headrace.settings.environment import Environment


def configured(tmp_path: Path, *origins: str, **settings: Any) -> Any:
    variables = {"HOME": str(tmp_path), "HEADRACE_STATE_DIR": str(tmp_path / "state")}
    return configure(origins, DatasetSettings(**settings), Environment(variables)).config


def test_words_become_numbers(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        "s3://b/train",
        cache=(f"{tmp_path}/c:1Gi",),
        memory="256Mi",
        block_size="1Mi",
        read_ahead="0",
    )
    assert (config.name, config.limits.memory_bytes) == ("train", 256 << 20)
    assert (config.transfer.block_size_bytes, config.transfer.readahead_bytes) == (1 << 20, 0)
    assert (tmp_path / "c").is_dir()


def test_default_cache_is_below_the_users_cache_folder(tmp_path: Path) -> None:
    config = configured(tmp_path, "s3://b/train")
    assert config.cache[0].folders[0].path == tmp_path / ".cache" / "headrace" / "train"


def test_no_cache_is_possible(tmp_path: Path) -> None:
    assert configured(tmp_path, "s3://b", cache=("none",)).cache == ()


def test_same_words_find_the_same_state_and_others_do_not(tmp_path: Path) -> None:
    def state(origin: str, cache: str, **settings: Any) -> Path:
        return configured(tmp_path, origin, cache=(f"{tmp_path}/{cache}:1Gi",), **settings).state_directory

    assert state("s3://b/p", "c") == state(
        "s3://b/p/", "c", memory="1Gi", options={"access-key-id": "i", "aws.secretKey": "s"}
    )
    different = {
        state("s3://b/p", "c"),
        state("s3://b/q", "c"),
        state("s3://b/p", "d"),
        state("s3://b/p", "c", options={"endpoint": "http://127.0.0.1"}),
        state("x=s3://b/p", "c"),
    }
    assert len(different) == 5
    assert all(path.parent == tmp_path / "state" for path in different)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"block_size": "3Mi"}, "setting 'block_size'.*power of two"),
        ({"memory": "1Mi"}, "setting 'memory'"),
        ({"memory": "lots"}, "'lots' is not a size"),
        ({"retries": 1000}, "setting 'retries'"),
        ({"high": 0.5, "low": 0.9}, "low .* is above high"),
        ({"high": 2.0}, "setting 'high'"),
    ],
)
def test_impossible_setting_is_named_as_the_person_wrote_it(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        configured(tmp_path, "s3://b", **{"cache": (f"{tmp_path}/c:1Gi",), **settings})


def test_local_origin_that_is_not_there_is_found_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a folder"):
        configured(tmp_path, str(tmp_path / "absent"), cache=("none",))


def test_warnings_of_the_secret_file_are_passed_on(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("aws.accessKeyId=i\naws.secretKey=s\n")
    (tmp_path / "secrets").chmod(0o644)
    settings = DatasetSettings(cache=("none",), secret_file=tmp_path / "secrets")
    done = configure(
        ["s3://b"], settings, Environment({"HOME": str(tmp_path), "HEADRACE_STATE_DIR": str(tmp_path)})
    )
    assert "chmod 600" in done.warnings[0]
