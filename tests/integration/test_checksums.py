"""Other bytes under the right headers: what the origin's own checksum says is compared, and never given out as data."""

from __future__ import annotations

import errno
import hashlib
import random
from mmap import PROT_READ, mmap
from pathlib import Path

import pytest

from headrace.testing.faulty_origin import Fault, Lie

from .harness import Shell, eventually, mode_words, tree_of

SMALL = {f"d{i % 3}/file-{i:02}": random.Random(i).randbytes(150_000 + 7 * i) for i in range(6)}
# Three blocks, the last one short.
LARGE = random.Random(77).randbytes(9_000_001)


@pytest.mark.parametrize("lie", [Lie.SHIFTED, Lie.ZEROS], ids=lambda lie: lie.name.lower())
def test_a_small_file_is_proven_before_its_first_byte(
    shell: Shell, liar, lying_bucket, tmp_path: Path, lie: Lie
) -> None:
    lying_bucket.fill(SMALL)
    arguments = {"cache": tmp_path / "cache", "options": lying_bucket.options}
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
        once = liar.add(Fault(lie, r"^/data/.*file-0[12]", times=1))
        assert tree_of(mountpoint) == SMALL, "what is wrong once is fetched once more"
        assert once.done == 1

        def proofs() -> dict:
            return shell.status(mountpoint)["proofs"]

        # A reader has its bytes before the cache has them: what is told of is what lies in the cache.
        eventually(lambda: proofs()["proven_bytes"] == sum(map(len, SMALL.values())), proofs)
        assert proofs()["mismatches"] == 1


def test_an_origin_that_is_always_wrong_is_an_error_with_a_reason(
    shell: Shell, liar, lying_bucket, tmp_path: Path
) -> None:
    lying_bucket.fill(SMALL)
    arguments = {"cache": tmp_path / "cache", "options": lying_bucket.options}
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
        liar.add(Fault(Lie.SHIFTED, r"^/data/.*file-01"))
        with pytest.raises(OSError) as caught:
            (mountpoint / "d1/file-01").read_bytes()
        assert caught.value.errno == errno.EIO
        assert (mountpoint / "d2/file-02").read_bytes() == SMALL["d2/file-02"]
        told = shell.must("status", mountpoint).stdout
        assert "origin sends other bytes" in told and "file-01  (MD5)" in told, told
        assert "--option ignore-checksums=true" in told, "what helps where the checksum is wrong"
        assert shell.status(mountpoint)["proofs"]["mismatches"] >= 2
        liar.clear()
        assert (mountpoint / "d1/file-01").read_bytes() == SMALL["d1/file-01"], "an error is not remembered"


def test_a_storage_whose_checksums_are_wrong_can_be_read_without_them(
    shell: Shell, liar, lying_bucket, tmp_path: Path
) -> None:
    lying_bucket.fill(SMALL)
    liar.add(Fault(Lie.ZEROS, r"^/data/.*file-01"))
    options = {**lying_bucket.options, "ignore-checksums": "true"}
    with shell.mounted(
        lying_bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=options
    ) as mountpoint:
        assert (mountpoint / "d1/file-01").read_bytes() == bytes(len(SMALL["d1/file-01"]))
        assert shell.status(mountpoint)["proofs"]["proven_bytes"] == 0


def test_verify_compares_whole_files_with_the_origin(
    shell: Shell, liar, lying_bucket, tmp_path: Path
) -> None:
    lying_bucket.fill({"large": LARGE})
    arguments = {"cache": tmp_path / "cache", "options": lying_bucket.options}
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
        liar.add(Fault(Lie.SHIFTED, r"^/data/large"))
        shell.must("warm", mountpoint)
        # Its entity tag is an MD5, which is not computed behind a reader's back: it costs as much as the fetch.
        assert shell.status(mountpoint)["proofs"]["uncompared_bytes"] == len(LARGE)
        told = shell.run("verify", mountpoint)
        assert told.code != 0
        assert "large" in told.stderr
        status = shell.status(mountpoint)
        assert (status["cached_bytes"], status["proofs"]["mismatches"]) == (0, 1)
        liar.clear()
        shell.must("warm", mountpoint)
        shell.must("verify", mountpoint)
        assert shell.status(mountpoint)["proofs"]["proven_bytes"] == len(LARGE)
        with (mountpoint / "large").open("rb") as file:
            assert hashlib.file_digest(file, "sha256").digest() == hashlib.sha256(LARGE).digest()
    heads = liar.requests["HEAD"]
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:
        assert shell.status(mountpoint)["proofs"]["proven_bytes"] == len(LARGE), "known to the next process"
        shell.must("verify", mountpoint)
        assert liar.requests["HEAD"] == heads, "and not asked for again"


@pytest.mark.parametrize("mode", ["elide", "classic"])
def test_pages_of_a_file_that_turns_out_to_be_wrong_are_not_read_again(
    shell: Shell, liar, lying_bucket, tmp_path: Path, mode: str
) -> None:
    # Only the whole of it can be compared, and by then a program has read it into the kernel's page cache.
    lying_bucket.server.client().put_in_parts("data", "large", (LARGE[: 5 << 20], LARGE[5 << 20 :]))
    arguments = {"cache": tmp_path / "cache", "options": lying_bucket.options}
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", "--mode", mode, **arguments) as mountpoint:
        liar.add(Fault(Lie.SHIFTED, r"^/data/large"))
        checksum = liar.add(Fault(Lie.HELD, r"^/data/large", method="HEAD"))
        with (
            (mountpoint / "large").open("rb", buffering=0) as file,
            mmap(file.fileno(), 0, prot=PROT_READ) as mapped,
        ):
            wrong = file.read()
            assert wrong != LARGE and mapped[:] == wrong, "nothing is known yet"
            liar.clear()
            checksum.released.set()
            eventually(lambda: shell.status(mountpoint)["proofs"]["mismatches"] == 1)
            eventually(lambda: (mountpoint / "large").read_bytes() == LARGE)
            file.seek(0)
            assert file.read() == LARGE and mapped[:] == LARGE, "what was open and mapped before, too"


def test_pages_of_a_view_that_turn_out_to_be_wrong_are_not_read_again(
    shell: Shell, liar, lying_bucket, tmp_path: Path
) -> None:
    lying_bucket.server.client().put_in_parts("data", "large", (LARGE[: 5 << 20], LARGE[5 << 20 :]))
    arguments = {"cache": tmp_path / "cache", "options": lying_bucket.options}
    words = mode_words("view")
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", *words, **arguments) as mountpoint:
        liar.add(Fault(Lie.SHIFTED, r"^/data/large"))
        checksum = liar.add(Fault(Lie.HELD, r"^/data/large", method="HEAD"))
        with (mountpoint / "large").open("rb", buffering=0) as file:
            assert file.read() != LARGE, "nothing is known yet"
            liar.clear()
            checksum.released.set()
            eventually(lambda: shell.status(mountpoint)["proofs"]["mismatches"] == 1)
            eventually(lambda: (mountpoint / "large").read_bytes() == LARGE)
            file.seek(0)
            assert file.read() == LARGE, "what was open before, too"


def test_an_object_uploaded_in_parts_is_proven_by_the_checksum_that_is_asked_for(
    shell: Shell, liar, lying_bucket, tmp_path: Path
) -> None:
    # Its entity tag is no MD5. The server keeps a CRC of all of it, as S3 does, tells it to who asks alone, and
    # refuses the question in a header that is not signed.
    parts = (LARGE[: 5 << 20], LARGE[5 << 20 :])
    assert lying_bucket.server.client().put_in_parts("data", "large", parts).endswith('-2"')
    arguments = {"cache": tmp_path / "cache", "options": lying_bucket.options}
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:

        def proofs() -> dict:
            return shell.status(mountpoint)["proofs"]

        liar.add(Fault(Lie.SHIFTED, r"^/data/large"))
        told = shell.run("warm", mountpoint)
        assert told.code != 0 and "sends other bytes of" in told.talk, told.talk
        assert (proofs()["mismatches"], shell.status(mountpoint)["cached_bytes"]) == (2, 0)
        liar.clear()
        # What was wrong twice is refused until somebody asks for a look at it.
        shell.must("verify", mountpoint)
        once = liar.add(Fault(Lie.SHIFTED, r"^/data/large", times=1))
        shell.must("warm", mountpoint)
        assert (once.done, proofs()["mismatches"], proofs()["proven_bytes"]) == (1, 3, len(LARGE))
        assert (mountpoint / "large").read_bytes() == LARGE


def test_what_boto3_uploads_in_parts_is_proven_by_the_checksum_of_its_parts(
    shell: Shell, liar, lying_bucket, tmp_path: Path
) -> None:
    # The storage keeps the CRC32 of the parts' CRC32s alone, and tells the parts to who asks.
    client, unusual = lying_bucket.server.client(), 6_000_001
    client.put_in_parts("data", "usual", (LARGE[: 5 << 20], LARGE[5 << 20 :]), summed=True)
    client.put_in_parts("data", "unusual", (LARGE[:unusual], LARGE[unusual:]), summed=True)
    arguments = {"cache": tmp_path / "cache", "options": lying_bucket.options}
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", **arguments) as mountpoint:

        def proofs() -> dict:
            return shell.status(mountpoint)["proofs"]

        shell.must("warm", mountpoint)
        assert proofs()["proven_bytes"] == 2 * len(LARGE)
        assert liar.requests["HEAD"] == 3, "one question a file, and one for the part whose length is unusual"
        shell.must("evict", mountpoint, "--all")
        wrong = liar.add(Fault(Lie.SHIFTED, r"^/data/(un)?usual", times=2))
        shell.must("warm", mountpoint)
        assert wrong.done == 2 and proofs()["mismatches"] > 0
        assert proofs()["proven_bytes"] == 2 * len(LARGE), "what was wrong is fetched once more"
        assert tree_of(mountpoint) == {"usual": LARGE, "unusual": LARGE}
