"""Words of a volume that make no sense are refused, and those that do cannot lead out of a node's folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.csi.node_folder import NodeFolder
from headrace.csi.volume_requests import check_path, check_volume_id, dataset_of, flags_of, sub_path_of
from headrace.errors import ConfigError, UnsupportedError


@pytest.mark.parametrize("name", ["default/data", "a/b", "team-1/v1.2", "x/" + "a" * 63])
def test_a_dataset_is_named_with_its_namespace(name: str) -> None:
    assert dataset_of({"dataset": name}) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "data",
        "/data",
        "default/",
        "a/b/c",
        "../x",
        "a/..",
        "a/.b",
        "A/b",
        "a/b\n",
        "a_b/c",
        "a/-b",
        "a" * 64 + "/b",
    ],
)
def test_what_is_no_dataset_is_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        dataset_of({"dataset": name})


@given(st.text(max_size=40) | st.text(alphabet="ab./-", max_size=12))
def test_whatever_is_let_through_lies_below_the_folder_of_mounts(name: str) -> None:
    try:
        dataset = dataset_of({"dataset": name})
    except ConfigError:
        return
    mountpoint = NodeFolder(Path("/node")).mountpoint(dataset)
    assert os.path.normpath(mountpoint) == mountpoint
    assert mountpoint.startswith("/node/mounts/")
    assert mountpoint.count("/") == 4


@given(st.text(max_size=40) | st.text(alphabet="ab./\0", max_size=12))
def test_a_part_never_leads_up(path: str) -> None:
    try:
        part = sub_path_of({"subPath": path})
    except ConfigError:
        return
    inside = os.path.normpath(f"/root/{part}")
    assert inside == "/root" if part == "" else inside == f"/root/{part}"
    assert "\0" not in part


@pytest.mark.parametrize(
    "path", ["/", "//", "/etc", "..", "a/../b", "./a", "a//b", "a/./b", "a\0b", "a/" * 3000]
)
def test_a_part_with_detours_is_refused(path: str) -> None:
    with pytest.raises(ConfigError):
        sub_path_of({"subPath": path})


def test_no_part_is_all() -> None:
    assert sub_path_of({}) == sub_path_of({"subPath": ""}) == ""
    assert sub_path_of({"subPath": "a/b/"}) == "a/b"


@pytest.mark.parametrize("path", ["", "/", "a", "/a/../b", "/a//b", "/a/.", "/a\0", "/" + "a" * 5000])
def test_a_target_path_is_absolute_and_plain(path: str) -> None:
    with pytest.raises(ConfigError):
        check_path(path, "target_path")


def test_a_target_path_may_end_in_a_slash() -> None:
    assert check_path("/a/b/", "target_path") == "/a/b"


@pytest.mark.parametrize("volume_id", ["", "a\nb", "x" * 2000])
def test_a_volume_has_an_id(volume_id: str) -> None:
    with pytest.raises(ConfigError):
        check_volume_id(volume_id)


def test_flags_that_are_not_known_are_refused_without_repeating_them() -> None:
    assert flags_of(["ro", "noexec", "ro"]) == ("noexec", "ro")
    with pytest.raises(UnsupportedError) as caught:
        flags_of(["ro", "password=s3cret"])
    assert "s3cret" not in f"{caught.value} {caught.value.hint}"
