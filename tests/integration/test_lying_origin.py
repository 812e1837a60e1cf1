"""An origin that lies: the right bytes, slowly if need be, or an errno; never a wrong byte, a hang or half a tree."""

from __future__ import annotations

import errno
import random
import time
from pathlib import Path

import pytest

from headrace.testing.faulty_origin import Fault, Lie

from .harness import Shell, tree_of

OBJECT = r"^/data/[^?]"
LISTING = r"list-type=2"
CONTENT = {f"d{i % 3}/file-{i:02}": random.Random(i).randbytes(150_000 + 7 * i) for i in range(12)} | {
    "large": random.Random(77).randbytes(6_000_001)
}
# Ten times what the tries and the pauses between them take.
LONGEST_WAIT_S = 250
# One fewer than the tries that a request has.
STORM = 10


@pytest.mark.parametrize(
    "lie",
    [
        Lie.SHORT_BODY,
        Lie.WRONG_LENGTH,
        Lie.RESET_IN_BODY,
        Lie.CONNECTION_RESET,
        Lie.SERVER_ERROR,
        Lie.RANGE_AS_WHOLE,
    ],
    ids=lambda lie: lie.name.lower(),
)
def test_a_lie_now_and_then_costs_time_not_truth(
    shell: Shell, liar, lying_bucket, tmp_path: Path, lie: Lie
) -> None:
    lying_bucket.fill(CONTENT)
    arguments = {"cache": tmp_path / "cache", "options": lying_bucket.options}
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
        faults = [liar.add(Fault(lie, OBJECT, after=after, times=1)) for after in (0, 2, 5, 7)]
        assert tree_of(mountpoint) == CONTENT
        assert sum(fault.done for fault in faults) >= 3, "the liar lied too little to prove anything"
        shell.must("verify", mountpoint)


def test_a_storm_of_503_is_waited_out(shell: Shell, liar, lying_bucket, tmp_path: Path) -> None:
    lying_bucket.fill(CONTENT)
    arguments = {"cache": tmp_path / "cache", "options": lying_bucket.options}
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
        storm = liar.add(Fault(Lie.SERVICE_UNAVAILABLE, OBJECT, times=STORM))
        assert tree_of(mountpoint) == CONTENT
        assert storm.done == STORM
        assert shell.status(mountpoint)["reads"]["origin_retries"] >= STORM


def test_an_origin_that_never_recovers_is_an_error_not_a_hang(
    shell, liar, lying_bucket, tmp_path: Path
) -> None:
    lying_bucket.fill({"a": b"content"})
    arguments = {"cache": tmp_path / "cache", "options": lying_bucket.options}
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
        liar.add(Fault(Lie.SHORT_BODY, OBJECT))
        begun = time.monotonic()
        with pytest.raises(OSError) as caught:
            (mountpoint / "a").read_bytes()
        assert caught.value.errno in (errno.EIO, errno.ETIMEDOUT, errno.EAGAIN)
        assert time.monotonic() - begun < LONGEST_WAIT_S
        liar.clear()
        assert (mountpoint / "a").read_bytes() == b"content", "an error is not remembered"


def test_a_slow_drip_is_read_to_its_end(shell: Shell, liar, lying_bucket, tmp_path: Path) -> None:
    lying_bucket.fill({"slow": CONTENT["large"][:200_000], "other": b"fast"})
    arguments = {"cache": tmp_path / "cache", "options": lying_bucket.options}
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
        liar.add(Fault(Lie.SLOW_DRIP, OBJECT + "low", delay_s=0.01))
        assert (mountpoint / "slow").read_bytes() == CONTENT["large"][:200_000]
        assert (mountpoint / "other").read_bytes() == b"fast"


def test_an_etag_other_than_the_listed_one_is_stale(shell: Shell, liar, lying_bucket, tmp_path: Path) -> None:
    lying_bucket.fill(CONTENT)
    arguments = {"cache": tmp_path / "cache", "options": lying_bucket.options}
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
        liar.add(Fault(Lie.CHANGED_ETAG, OBJECT + ".*file-01"))
        with pytest.raises(OSError) as caught:
            (mountpoint / "d1/file-01").read_bytes()
        assert caught.value.errno == errno.ESTALE
        assert (mountpoint / "d2/file-02").read_bytes() == CONTENT["d2/file-02"]


@pytest.mark.parametrize(
    "lie",
    [Lie.TRUNCATED_LISTING, Lie.GARBAGE, Lie.LOST_CONTINUATION],
    ids=lambda lie: lie.name.lower(),
)
def test_a_broken_listing_is_refused_as_a_whole(
    shell: Shell, liar, lying_bucket, tmp_path: Path, lie: Lie
) -> None:
    # More than two pages of 1000 keys, so that continuation matters.
    lying_bucket.fill({f"n/{number:04}": b"" for number in range(2100)})
    fault = liar.add(Fault(lie, LISTING))
    (tmp_path / "mnt").mkdir()
    words = [word for name, value in lying_bucket.options.items() for word in ("--option", f"{name}={value}")]
    begun = time.monotonic()
    outcome = shell.run("mount", lying_bucket.uri, tmp_path / "mnt", "--cache", f"{tmp_path}/c:1Gi", *words)
    try:
        assert fault.done > 0
        assert outcome.code != 0, f"half a tree was mounted: {outcome.talk}"
        assert time.monotonic() - begun < LONGEST_WAIT_S
        assert "error:" in outcome.stderr
        assert "data" in outcome.stderr
        assert not (tmp_path / "mnt").is_mount()
    finally:
        shell.run("unmount", "--force", tmp_path / "mnt")


def test_a_token_that_repeats_itself_neither_hangs_nor_loses_names(
    shell, liar, lying_bucket, tmp_path: Path
) -> None:
    lying_bucket.fill({f"n/{number:04}": b"" for number in range(2100)})
    fault = liar.add(Fault(Lie.REPEATED_CONTINUATION, LISTING))
    (tmp_path / "mnt").mkdir()
    words = [word for name, value in lying_bucket.options.items() for word in ("--option", f"{name}={value}")]
    begun = time.monotonic()
    outcome = shell.run("mount", lying_bucket.uri, tmp_path / "mnt", "--cache", f"{tmp_path}/c:1Gi", *words)
    try:
        assert fault.done > 0
        assert time.monotonic() - begun < LONGEST_WAIT_S
        assert outcome.code != 0 or len(list((tmp_path / "mnt/n").iterdir())) == 2100
    finally:
        shell.run("unmount", "--force", tmp_path / "mnt")


def test_a_broken_listing_keeps_the_old_tree_at_refresh(
    shell: Shell, liar, lying_bucket, tmp_path: Path
) -> None:
    lying_bucket.fill(CONTENT)
    arguments = {"cache": tmp_path / "cache", "options": lying_bucket.options}
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
        liar.add(Fault(Lie.TRUNCATED_LISTING, LISTING))
        assert shell.run("refresh", mountpoint).code != 0
        assert tree_of(mountpoint) == CONTENT
        assert shell.status(mountpoint)["snapshot"]["refresh_error"]
        assert "failed" in shell.must("status", mountpoint).stdout
        liar.clear()
        shell.must("refresh", mountpoint)
        assert not shell.status(mountpoint)["snapshot"]["refresh_error"]
