"""Warm as a person meets it: interrupted and taken up again, a part of the tree, progress in a log file."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import time
from pathlib import Path

from headrace.testing.faulty_origin import Fault, FaultyOrigin, Lie

from .harness import DEADLINE_S, HEADRACE, Shell, tree_of
from .servers import Bucket
from .survival import wait_until

CONTENT = {
    f"{'left' if i % 2 else 'right'}/part-{i:02}": random.Random(i).randbytes(400_000 + i) for i in range(40)
}
TOTAL = sum(map(len, CONTENT.values()))
LINE = re.compile(r"warm: [\d.]+([KM]i)?B of [\d.]+MiB \([\d.]+%\), \d+ of 40 files, [\d.]+([KM]i)?B/s")


def start_warm(shell: Shell, *words: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        # A suite that runs in the background of a script has inherited an ignored SIGINT.
        ["env", "--default-signal=INT", HEADRACE, "warm", *map(str, words)],
        env=shell.full_environment(),
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_interrupted_warm_goes_on_where_it_stopped_and_a_log_file_gets_lines_not_a_bar(
    shell: Shell, liar: FaultyOrigin, lying_bucket: Bucket, tmp_path: Path
) -> None:
    lying_bucket.fill(CONTENT)
    arguments = {"cache": tmp_path / "cache", "options": lying_bucket.options}
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", "--concurrency", "2", **arguments) as mountpoint:
        # Eight files come, the origin keeps the others to itself.
        held = liar.add(Fault(Lie.HELD, r"^/data/[^?]", after=8))
        with start_warm(shell, mountpoint) as warm:
            assert warm.stderr is not None
            # It says so once it looks after what it has begun, and hears us.
            first = warm.stderr.readline()
            wait_until(
                lambda: held.done and shell.status(mountpoint)["cached_bytes"] >= 8 * 400_000,
                lambda: (held.done, shell.status(mountpoint)),
            )
            warm.send_signal(signal.SIGINT)
            _, talk = warm.communicate(timeout=DEADLINE_S)
        assert LINE.match(first), first + talk
        assert warm.returncode == 130, talk
        assert "goes on from there" in talk
        assert "Traceback" not in talk
        kept = shell.status(mountpoint)["cached_bytes"]
        assert TOTAL // 8 <= kept < TOTAL, "it was meant to be interrupted in the middle"
        liar.clear()
        held.released.set()
        time.sleep(0.5)
        assert shell.status(mountpoint)["cached_bytes"] < TOTAL, "a cancelled warm goes on in secret"
        told = shell.must("warm", mountpoint).stderr
        assert told.splitlines()[-1].startswith("warm: complete: 40 files")
        assert not {"\r", "\x1b"} & set(first + talk + told)
        status = shell.status(mountpoint)
        assert status["cached_bytes"] == TOTAL
        assert status["reads"]["origin_bytes"] <= TOTAL + 2 * (4 << 20), (
            "at most what was on its way came twice"
        )
        lying_bucket.stop_server()
        assert tree_of(mountpoint) == CONTENT


def test_warm_of_a_folder_brings_that_folder_alone(shell: Shell, bucket, tmp_path: Path) -> None:
    bucket.fill(CONTENT)
    left = sum(len(data) for key, data in CONTENT.items() if key.startswith("left/"))
    with shell.mounted(
        bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        shell.must("warm", mountpoint / "left")
        assert shell.status(mountpoint)["cached_bytes"] == left
        shell.must("warm", mountpoint, "right/part-00")
        assert shell.status(mountpoint)["cached_bytes"] == left + len(CONTENT["right/part-00"])
        absent = shell.run("warm", mountpoint, "nowhere")
        assert absent.code == 4, absent.talk
        assert "nowhere" in absent.stderr


def test_each_pass_over_more_than_the_cache_holds_fetches_no_byte_twice(
    shell, bucket, tmp_path: Path
) -> None:
    bucket.fill(CONTENT)
    small = {"cache": tmp_path / "cache", "quota": "8Mi", "options": bucket.options}
    with shell.mounted(bucket.uri, tmp_path / "mnt", "--block-size", "128Ki", **small) as mountpoint:
        fetched = [0]
        for epoch in range(2):
            order = sorted(CONTENT)
            random.Random(epoch).shuffle(order)
            for name in order:
                assert (mountpoint / name).read_bytes() == CONTENT[name]
            fetched.append(shell.status(mountpoint)["reads"]["origin_bytes"])
            assert fetched[-1] - fetched[-2] <= TOTAL, "a byte was fetched twice in one pass"
        assert sum(level["used_bytes"] for level in shell.status(mountpoint)["levels"]) <= 8 << 20
