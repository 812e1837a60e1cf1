"""Caches are read once, at the door, and mean the same when they are written again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.settings.cache_words import CacheWord, WaterMarks, parse_cache
from headrace.settings.engine import Medium
from headrace.settings.environment import Environment
from headrace.settings.reading import role_settings
from headrace.settings.roles import MemberSettings, WorkerSettings
from headrace.settings.sizes import Quota
from headrace.settings.toml_files import dataset_settings

WORD = CacheWord((Path("/ssd"),), Quota(1 << 30), Medium.SSD)


@pytest.mark.parametrize(
    ("word", "folders", "quota", "medium"),
    [
        ("/ssd/headrace:100Gi", ["/ssd/headrace"], Quota(100 << 30), Medium.SSD),
        ("/ssd/headrace:100Gi:hdd", ["/ssd/headrace"], Quota(100 << 30), Medium.HDD),
        ("/dev/shm/x:8Gi", ["/dev/shm/x"], Quota(8 << 30), Medium.MEM),
        ("/dev/shm/x:8Gi:SSD", ["/dev/shm/x"], Quota(8 << 30), Medium.SSD),
        ("/a,/b:50%:SSD", ["/a", "/b"], Quota(share=0.5), Medium.SSD),
        ("/with:colon:1Gi", ["/with:colon"], Quota(1 << 30), Medium.SSD),
    ],
)
def test_cache_word_is_taken_apart(word: str, folders: list[str], quota: Quota, medium: Medium) -> None:
    parsed = parse_cache(word)
    assert [str(folder) for folder in parsed.folders] == folders
    assert (parsed.quota, parsed.medium) == (quota, medium)


@pytest.mark.parametrize(
    "word", ["", "/ssd", ":1Gi", "/ssd:", "/ssd:1Gi:NVME", "/ssd:SSD", "/ssd:0", "/ssd:-1Gi", ",:1Gi"]
)
def test_wrong_cache_word_is_one_clear_error(word: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_cache(word)
    assert caught.value.hint


def test_marks_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(ConfigError, match="above high"):
        parse_cache("/ssd:2Gi:SSD:0.5-0.7")


SHARES = st.floats(0, 1).map(lambda share: round(share, 6))
QUOTAS = st.integers(1, 1 << 62).map(Quota) | st.integers(1, 1000).map(
    lambda each: Quota(share=each / 10 / 100)
)
MARKS = st.tuples(SHARES, SHARES).map(lambda pair: WaterMarks(max(pair), min(pair)))


@given(
    folders=st.lists(st.from_regex(r"/[a-z][a-z:. 0-9]{0,8}[a-z]", fullmatch=True), min_size=1, max_size=3),
    quota=QUOTAS,
    medium=st.sampled_from(Medium),
    marks=st.none() | MARKS,
)
def test_a_word_that_is_written_is_read_as_the_same(
    folders: list[str], quota: Quota, medium: Medium, marks: WaterMarks | None
) -> None:
    word = CacheWord(tuple(map(Path, folders)), quota, medium, marks)
    assert parse_cache(str(word)) == word


@pytest.mark.parametrize("role", [WorkerSettings, MemberSettings])
def test_the_caches_of_a_role_are_typed_wherever_they_come_from(
    role: type[WorkerSettings] | type[MemberSettings], tmp_path: Path
) -> None:
    file = tmp_path / "role.yaml"
    file.write_text("cache: ['/ssd:1Gi']\n")
    variable = "HEADRACE_WORKER_CACHE" if role is WorkerSettings else "HEADRACE_MOUNT_CACHE"
    of_variable = Environment({variable: "/ssd:1Gi"})
    assert role_settings(role, file, Environment({}))[0].cache == (WORD,)
    assert role_settings(role, None, of_variable)[0].cache == (WORD,)
    assert role_settings(role, None, Environment({}), cache=["/ssd:1Gi"])[0].cache == (WORD,)
    assert role.model_validate_json(role(cache=(WORD,)).model_dump_json()).cache == (WORD,)


def test_no_cache_is_another_thing_than_none_named() -> None:
    assert dataset_settings({}).cache is None
    assert dataset_settings({}, cache=()).cache is None
    assert dataset_settings({"cache": ["none"]}).cache == ()
    assert dataset_settings({"cache": ["none"]}, cache=("/ssd:1Gi",)).cache == (WORD,)


def test_a_wrong_cache_in_a_file_is_found_when_the_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "worker.yaml"
    file.write_text("node: a\ncache:\n- /ssd:1Gi\n- /hdd:much\n")
    with pytest.raises(ConfigError) as caught:
        role_settings(WorkerSettings, file, Environment({}))
    assert caught.value.message == f"{file} line 4: setting 'cache.1': 'much' is not a size"
    assert caught.value.hint
