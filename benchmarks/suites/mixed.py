"""A dataset of large files and very many small ones: the large ones, in order, as a program reads a checkpoint there.

`warm` mounts the two kinds apart, each as is best for it; here one mount has to serve both.
"""

from __future__ import annotations

import contextlib
import os

from benchmarks import rows
from benchmarks.contenders import Contender
from benchmarks.data import large_paths
from benchmarks.machine import CACHES, drop_caches
from benchmarks.session import Session
from benchmarks.workloads import reads

ROWS = (rows.MIXED_COLD, rows.MIXED_HOT)


def run(session: Session) -> None:
    """Both rows of this group; all contenders are mounted at once and measured in turn."""
    with contextlib.ExitStack() as mounts:
        mounted = []
        for contender in session.contenders:
            session.say(f"mounting everything: {contender.name}")
            with session.attempt(contender, *ROWS):
                tree = mounts.enter_context(session.mounted(contender, session.source(), "mixed"))
                files = large_paths(tree.directory, session.scale)[:1]
                session.loop.run("sequential", files, seconds=session.scale.warm_limit_s, block_bytes=1 << 20)
                mounted.append((contender, files))
        os.sync()
        for repetition, (contender, files) in session.repeated(mounted):
            session.say(f"a large file among small ones {repetition + 1}: {contender.name}")
            with session.attempt(contender, *ROWS):
                _measure(session, contender, files)


def _measure(session: Session, contender: Contender, files: list[os.PathLike[str]]) -> None:
    scale, loop = session.scale, session.loop
    if drop_caches(CACHES * scale.large_file_bytes):
        rate = reads.sequential_mib_per_s(loop, files, seconds=scale.cold_limit_s, repeat=False)
        session.samples.add(rows.MIXED_COLD, contender.name, rate)
    rate = reads.sequential_mib_per_s(loop, files, seconds=scale.loop_s, repeat=True)
    session.samples.add(rows.MIXED_HOT, contender.name, rate)
