"""Limits of mounts that programs may write to."""

from __future__ import annotations

import pytest

from headrace.errors import ConfigError
from headrace.settings.dataset import MountMode, MountSettings
from headrace.settings.writing_limits import check_writable


@pytest.mark.parametrize("mode", list(MountMode))
def test_a_mount_that_is_only_read_has_none(mode: MountMode) -> None:
    check_writable(MountSettings(mode=mode), is_kept=True)


@pytest.mark.parametrize(
    ("mode", "is_kept", "word"),
    [
        (MountMode.ELIDE, False, "elide"),
        (MountMode.VIEW, False, "view"),
        (MountMode.AUTO, True, "Kubernetes"),
    ],
)
def test_modes_that_hear_of_no_close_and_volumes_are_refused(
    mode: MountMode, is_kept: bool, word: str
) -> None:
    with pytest.raises(ConfigError, match=word):
        check_writable(MountSettings(mode=mode, writable=True), is_kept=is_kept)


@pytest.mark.parametrize("mode", [MountMode.AUTO, MountMode.PASSTHROUGH, MountMode.CLASSIC])
def test_other_modes_write(mode: MountMode) -> None:
    check_writable(MountSettings(mode=mode, writable=True), is_kept=False)
