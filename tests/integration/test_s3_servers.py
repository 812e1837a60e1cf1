"""What an S3 origin promises, on servers that nobody here wrote (`s3_servers`)."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.testing.s3_client import S3Error

from .harness import Shell, tree_of
from .s3_servers import CONTROL, TESTED, Kind, Running, running

AWKWARD = {
    "signed/it's (1) + [2]!*.txt": b"what a signature spells otherwise",
    "signed/a=b&c;d,e@f:g$h~i.txt": b"what queries and paths have a use for",
    "percent/100%25 %zz.txt": b"looks encoded, and is not",
    'xml/<a href="x">&amp;\'.txt': b"looks like XML",
    " leading and trailing ": b"blanks",
    "ünï/日本.bin": b"unicode",
    # By UTF-16, the first comes before the second.
    "order/\U0001f600": b"beyond the first plane",
    "order/\uff5e": b"within it",
    # By the names of files, the first comes after the second.
    "order-of/name-x": b"beside the folder",
    "order-of/name/x": b"in the folder",
    CONTROL: b"XML has no place for it",
}
PART = 5 << 20


@pytest.fixture(scope="module", params=TESTED, ids=str)
def foreign(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    kind: Kind = request.param
    with running(kind, tmp_path_factory.mktemp(kind.name)) as found:
        yield found


@pytest.fixture
def kept(foreign: Running) -> dict[str, bytes]:
    """What the server keeps of the awkward keys under their names, and of others more than a page holds."""
    content = AWKWARD | {f"paged/{number:05}": b"%d" % number for number in range(foreign.kind.paged)}
    with ThreadPoolExecutor(4) as clients:
        taken = clients.map(lambda key: is_taken(foreign, key, content[key]), content)
    foreign.client.put("data", "marker/", b"")
    kept = {key for key, is_there in zip(content, taken, strict=True) if is_there}
    return {key: content[key] for key in kept}


def is_taken(foreign: Running, key: str, data: bytes) -> bool:
    """Whether the server holds it by that name afterwards."""
    if key not in foreign.kind.not_kept:
        foreign.client.put("data", key, data)
        return True
    with contextlib.suppress(S3Error):
        foreign.client.put("data", key, data)
    return False


def test_every_key_is_listed_once_and_read_right(
    shell: Shell, foreign: Running, kept: dict[str, bytes], tmp_path: Path
) -> None:
    with shell.mounted(
        "s3://data", tmp_path / "mnt", cache=tmp_path / "cache", options=foreign.options
    ) as mountpoint:
        readable = {key: data for key, data in kept.items() if key not in foreign.kind.garbled}
        assert tree_of(mountpoint) == readable
        assert (mountpoint / "marker").is_dir()
        status = shell.status(mountpoint)
        is_slow = foreign.kind.unordered or bool(foreign.kind.garbled)
        assert ("one request at a time" in (status["origins"][0]["notice"] or "")) is is_slow
        rejected = dict(status["snapshot"]["rejected_by_rule"])
        garbled = len(foreign.kind.garbled & set(kept))
        assert rejected == ({"garbled-key": garbled} if garbled else {})
        # What cannot be had does not keep it from being complete.
        shell.must("warm", mountpoint)
        shell.must("verify", mountpoint)
        assert shell.must("refresh", mountpoint).code == 0
        assert tree_of(mountpoint) == readable


def test_what_is_copied_there_comes_back(shell: Shell, foreign: Running, tmp_path: Path) -> None:
    source = tmp_path / "source"
    content = {f"copied/{key}": data for key, data in AWKWARD.items() if key != CONTROL}
    content["copied/in parts (2).bin"] = os.urandom(2 * PART + 77)
    for key, data in content.items():
        (source / key).parent.mkdir(parents=True, exist_ok=True)
        (source / key).write_bytes(data)
    settings = {
        "source": {"origin": str(source)},
        "target": {"origin": "s3://data", "options": foreign.options},
        "part_size": "5Mi",
        "state_directory": str(tmp_path / "state"),
    }
    (tmp_path / "copy.yaml").write_text(json.dumps(settings))
    (tmp_path / "copy.yaml").chmod(0o600)
    shell.must("copy", "--config", tmp_path / "copy.yaml")
    assert {key: foreign.client.get("data", key) for key in content} == content


def test_what_another_client_uploaded_in_parts_is_read_and_no_good_byte_is_called_wrong(
    shell: Shell, foreign: Running, tmp_path: Path
) -> None:
    if not foreign.kind.takes_summed_parts:
        pytest.skip(f"{foreign.kind} refuses such an upload")
    parts = [os.urandom(PART), os.urandom(PART), os.urandom(77)]
    foreign.client.put_in_parts("data", "parts/usual.bin", parts, summed=True)
    with shell.mounted(
        "s3://data/parts", tmp_path / "mnt", cache=tmp_path / "cache", options=foreign.options
    ) as mountpoint:
        shell.must("warm", mountpoint)
        assert tree_of(mountpoint) == {"usual.bin": b"".join(parts)}
        shell.must("verify", mountpoint)
        proofs = shell.status(mountpoint)["proofs"]
        assert proofs["mismatches"] == 0
        assert proofs["proven_bytes"] == (sum(map(len, parts)) if foreign.kind.proves_parts else 0)
