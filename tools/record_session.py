"""Runs a session of commands in a real terminal, against a real S3 server, and draws it as docs/images/session.svg.

Nothing is typed over: the output and its times are those of this run. The picture is only written anew when the
session says something else than the one that is there, numbers apart; `--force` writes it in any case.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools import terminal_picture
from tools.terminal_picture import Line

from headrace.testing.buckets import adopt_folder
from headrace.testing.network import storage_link
from headrace.testing.s3_server import S3Server

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "images" / "session.svg"
TITLE = "A bucket behind 400 Mbit/s: cold, warm, and the mount's process killed under a reader"
LINK_BITS_PER_S = 400_000_000
FILES, FILE_BYTES = 8, 16 << 20
# A command that takes so much longer than all of them together hangs.
COMMAND_TIMEOUT_S = 120
# What bash writes when a command has ended; no program of the session does.
END = b"\x1d"
LINE = re.compile(rb"(?P<text>[^\n\x1d]*)(?P<end>[\n\x1d])")

SESSION = (
    "mkdir photos; headrace mount s3://bucket/photos photos --cache cache:1Gi",
    "time cat photos/train/* | md5sum             # cold: all of it comes over the link",
    "time cat photos/train/* | md5sum             # warm: it comes from this machine's disk",
    "cat photos/val/* | md5sum &                  # a program reads what is not cached yet,",
    "kill -9 $(headrace status photos | awk '/process/ {print $2+0}')   # its mount's process dies",
    "wait; cat photos/val/* | md5sum              # the program waited, and read on",
    "headrace status photos | head -5",
    "headrace unmount photos",
)


@contextmanager
def storage(folder: Path) -> Iterator[tuple[Mapping[str, str], Mapping[str, str]]]:
    """A bucket of photos behind a link: the variables that lead there, and what each folder of it has for an MD5."""
    photos = folder / "storage" / "bucket" / "photos"
    digests = {name: _made(photos / name, seed=name) for name in ("train", "val")}
    adopt_folder(photos.parent)
    link = storage_link(LINK_BITS_PER_S)
    try:
        with S3Server(folder / "storage", state=folder / "server", link=link, count_requests=False) as server:
            yield (
                {
                    "AWS_ENDPOINT_URL": server.endpoint,
                    "AWS_ACCESS_KEY_ID": server.credentials.access_key_id,
                    "AWS_SECRET_ACCESS_KEY": server.credentials.secret_access_key,
                    "AWS_REGION": server.region,
                },
                digests,
            )
    finally:
        link.close()


def _made(folder: Path, *, seed: str) -> str:
    """Writes the files of a folder, the same for the same seed, and says the MD5 of all of them."""
    folder.mkdir(parents=True)
    digest = hashlib.md5(usedforsecurity=False)
    for number in range(FILES):
        content = hashlib.shake_256(f"{seed}/{number}".encode()).digest(FILE_BYTES)
        (folder / f"{number:02}.tar").write_bytes(content)
        digest.update(content)
    return digest.hexdigest()


def recorded(session: Sequence[str], folder: Path, variables: Mapping[str, str]) -> list[Line]:
    """Runs the commands one after the other in one bash, whose output is a terminal."""
    master, slave = pty.openpty()
    # A terminal without colours and moving lines, which the picture could not show.
    kind = {"TERM": "dumb", "COLUMNS": str(terminal_picture.WIDTH), "TIMEFORMAT": "%1R seconds"}
    shell = subprocess.Popen(
        ["bash", "--norc", "--noprofile"], stdin=subprocess.PIPE, stdout=slave, stderr=slave, cwd=folder,
        env={**os.environ, **variables, **kind},
    )  # fmt: skip
    os.close(slave)
    terminal, begin, lines = Terminal(master), time.monotonic(), list[Line]()
    assert shell.stdin is not None
    try:
        for command in session:
            lines.append(Line(time.monotonic() - begin, command, is_command=True))
            shell.stdin.write(f"{command}\nprintf '\\035'\n".encode())
            shell.stdin.flush()
            lines += [Line(at - begin, text.replace(str(folder), "~")) for at, text in terminal.lines()]
    finally:
        shell.kill()
        shell.wait()
        shell.stdin.close()
        os.close(master)
    return lines


class Terminal:
    """What comes out of the programs; what comes behind the end of a command belongs to the next one."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""

    def lines(self) -> Iterator[tuple[float, str]]:
        """The lines that come until the command has ended, each with its time."""
        deadline = time.monotonic() + COMMAND_TIMEOUT_S
        while True:
            found = LINE.match(self._rest)
            if found is None:
                self._read(deadline)
                continue
            self._rest = self._rest[found.end() :]
            if found["text"] or found["end"] != END:
                yield time.monotonic(), found["text"].decode().rstrip()
            if found["end"] == END:
                return

    def _read(self, deadline: float) -> None:
        ready, _, _ = select.select([self._descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError(
                f"a command has not ended in {COMMAND_TIMEOUT_S} s; it said last: {self._rest!r}"
            )
        self._rest += os.read(self._descriptor, 65_536)


def check(lines: Sequence[Line], digests: Mapping[str, str]) -> None:
    """The session has to show what it claims: right bytes each time, and a process that was replaced."""
    said = "\n".join(line.text for line in lines)
    for name, digest in digests.items():
        if said.count(digest) != 2:
            raise ValueError(f"the files of {name} were not read twice with their MD5 {digest}:\n{said}")
    if "ended by SIGKILL" not in said:
        raise ValueError(f"the process of the mount was not replaced:\n{said}")
    if said.index(digests["val"]) < said.index("wait;"):
        raise ValueError(f"the reader had ended before the process was killed; run it again:\n{said}")


def main(arguments: Sequence[str]) -> int:
    """Records, checks and draws."""
    parser = argparse.ArgumentParser(prog="record_session", description=__doc__)
    parser.add_argument("--force", action="store_true", help="write the picture though only numbers differ")
    forced = parser.parse_args(arguments).force
    with tempfile.TemporaryDirectory(prefix="headrace-session-") as name:
        folder = Path(name).resolve()
        with storage(folder) as (variables, digests):
            states = {"HEADRACE_STATE_DIR": str(folder / "state"), "HOME": str(folder)}
            try:
                lines = recorded(SESSION, folder, {**variables, **states})
            finally:
                ended = ["headrace", "unmount", "--force", folder / "photos"]
                subprocess.run(ended, check=False, capture_output=True)
    check(lines, digests)
    print(terminal_picture.transcript(lines))
    if not forced and terminal_picture.says_the_same(PICTURE, lines):
        print(f"{PICTURE.relative_to(ROOT)} says the same, numbers apart: left as it is (--force draws it)")
    else:
        PICTURE.write_text(terminal_picture.drawn(lines, title=TITLE))
        print(f"{PICTURE.relative_to(ROOT)} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
