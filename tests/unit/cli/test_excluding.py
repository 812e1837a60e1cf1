"""`--exclude` and `--strict` reach each origin that the command line names."""

from __future__ import annotations

import pytest

from headrace.cli.master import origins_of
from headrace.cli.terminal import terminal
from headrace.errors import ConfigError
from headrace.roles.cluster.dataset_fingerprint import fingerprint
from headrace.roles.specs.origins import resolve_origins
from headrace.settings.environment import Environment
from headrace.settings.origins import Exclude
from headrace.settings.roles import OriginSettings

NOWHERE = Environment({"HOME": "/nonexistent"})


def test_words_of_a_master_are_those_of_each_origin() -> None:
    found = origins_of(["a=/a", "b=s3://b"], None, ["@eaDir", "*.tmp"], strict=True)
    assert found is not None
    mounts = resolve_origins(
        [OriginSettings.model_validate(each) for each in found], NOWHERE, terminal()
    ).mounts
    assert [(mount.path, mount.strict) for mount in mounts] == [("a", True), ("b", True)]
    assert {mount.exclude.patterns for mount in mounts} == {("@eaDir", "*.tmp")}


@pytest.mark.parametrize(
    ("exclude", "strict", "word"), [(["*.tmp"], None, "--exclude"), (None, True, "--strict")]
)
def test_without_an_origin_they_belong_into_the_file(
    exclude: list[str] | None, strict: bool | None, word: str
) -> None:
    with pytest.raises(ConfigError, match=f"{word} is for an ORIGIN"):
        origins_of(None, None, exclude, strict=strict)


def test_a_pattern_that_means_nothing_names_the_flag() -> None:
    with pytest.raises(ConfigError, match=r"--exclude '#x': the pattern names nothing"):
        origins_of(["/a"], None, ["#x"])


def test_what_a_role_lists_makes_it_no_other_dataset() -> None:
    plain = OriginSettings(origin="/a", options={"ignore-change-times": "true"})
    told = plain.model_copy(
        update={
            "options": {**plain.options, "strict": "true", "exclude": "*.o"},
            "exclude": ("/b/c",),
            "exclude_below": "b",
        }
    )
    mounts = resolve_origins([told], NOWHERE, terminal()).mounts
    assert mounts[0].exclude == Exclude(patterns=("*.o", "/b/c"), below="b")
    assert fingerprint(mounts) == fingerprint(resolve_origins([plain], NOWHERE, terminal()).mounts)
    assert told.for_reading() == plain
