"""The master over real HTTP: a neighbour who has no token learns no name from it, and who has one learns all.

The attacker asks unsigned, by a token of another cluster, and with a question of a member that he has overheard.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from masters import TOKEN, Running, heartbeat, impostor, until, with_master
from pydantic import SecretStr

from headrace.control.client import ControlClient
from headrace.control.counts import counts_of
from headrace.control.messages import LoadOrder, LoadState, MountHeartbeat, Traffic, encode_paths
from headrace.control.rights import Rights, derive
from headrace.control.signing import SigningKey
from headrace.errors import RefusedError

pytestmark = pytest.mark.usefixtures("module")

NAMES = (
    "shop",
    "train",
    "w-planted",
    "planted-node",
    "10.0.0.1",
    "planted-mount",
    "/mnt/planted",
    "planted-disk",
)
LEVEL = {"medium": "SSD", "quota_bytes": 1 << 30, "used_bytes": 300, "trouble": "planted-disk is full"}
ROOT = Path(__file__).parents[3]
OPEN = ("/v1/status", "/metrics", "/healthz", "/")


async def fill(master: Running, client: ControlClient) -> None:
    """Brings names of every kind to the master."""
    await until(lambda: master.cluster.shelf.newest is not None)
    beat = heartbeat(
        "w-planted", node="planted-node", cached_bytes=300, levels=[LEVEL], hanging_folders=["/planted-disk"]
    )
    await client.heartbeat(beat)
    mount = MountHeartbeat(
        id="planted-mount",
        instance="i",
        node="planted-node",
        mountpoint="/mnt/planted",
        traffic=Traffic(peer_bytes=5),
    )
    await client.mount_heartbeat(mount)
    await client.start_load(LoadOrder(paths=encode_paths([b"train/planted-file"])))
    await until(lambda: len(master.cluster.view.members) == 1)
    await until(lambda: master.cluster.loads.reports()[0].state is LoadState.RUNNING)


async def ask(url: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


def texts_in(value: object) -> Iterator[str]:
    """All texts of a JSON value but the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts_in(each)


def numbers_in(status: Mapping[str, Any]) -> tuple[object, ...]:
    (worker,), (mount,), (load,) = status["workers"], status["mounts"], status["loads"]
    return (
        status["cached_bytes"],
        status["snapshot"]["files"],
        (worker["state"], worker["cached_bytes"], worker["levels"][0]["quota_bytes"]),
        (mount["peer_bytes"], mount["snapshot_version"]),
        (load["action"], load["state"]),
    )


def test_who_shows_no_token_gets_numbers_and_no_name(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await fill(master, client)
        for path in OPEN:
            code, text = await ask(master.url + path)
            assert code == 200
            told = text if path != "/" else ""  # the page is the same for every master
            assert not [name for name in NAMES if name in told], path
        async with master.client(None) as nobody:
            counts = await nobody.status()
        words = {"", "active", "SSD", "load", "running"}
        assert set(texts_in(counts)) <= words, "nothing but states and kinds"
        whole = await client.status()
        assert numbers_in(counts) == numbers_in(whole)
        assert (counts["named"], whole["named"]) == (False, True)

    with_master(tmp_path, test)


def test_metrics_have_no_label_for_a_name(tmp_path: Path) -> None:
    """Those of the master as it tells them, those of workers and mounts where they are declared."""

    async def test(master: Running, client: ControlClient) -> None:
        await fill(master, client)
        _, text = await ask(master.url + "/metrics")
        assert set(re.findall(r'[{,](\w+)="', text)) == {"state", "path", "status", "reason"}

    with_master(tmp_path, test)
    declared = (ROOT / "crates/engine/src/metrics.rs").read_text()
    labels = dict(re.findall(r"struct (\w+Label) \{(.*?)\}", declared, re.DOTALL))
    assert set(re.findall(r"Family<(\w+),", declared)) == set(labels) == {"LevelLabel", "ReasonLabel"}
    assert re.findall(r"pub (\w+):", "".join(labels.values())) == ["level", "medium", "reason"]


def test_each_token_of_the_cluster_opens_the_names(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await fill(master, client)
        for rights in Rights:
            async with master.client(derive(TOKEN, rights)) as member:
                status = await member.status()
            assert (status["cluster"], status["workers"][0]["id"]) == ("shop", "w-planted")
            assert status["mounts"][0]["mountpoint"] == "/mnt/planted"
            assert status["loads"][0]["paths"] == ["train/planted-file"]

    with_master(tmp_path, test)


def test_a_token_of_another_cluster_opens_nothing(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await fill(master, client)
        other = SecretStr("another-token-0123456789")
        async with master.client(other) as stranger:
            with pytest.raises(RefusedError, match="does not accept the token"):
                await stranger.status()
        for headers in (
            {"Headrace-Signature": "v1=" + "0" * 64},
            {"Headrace-Time": "1", "Headrace-Nonce": "n", "Headrace-Signature": "v1=00"},
        ):
            code, text = await ask(master.url + "/v1/status", headers)
            assert code == 401
            assert not [name for name in NAMES if name in text]

    with_master(tmp_path, test)


def test_an_overheard_question_opens_nothing_a_second_time(tmp_path: Path) -> None:
    """Nor does one that was signed for another path, or for another moment."""

    async def test(master: Running, client: ControlClient) -> None:
        await fill(master, client)
        key, now_ms = SigningKey.of(TOKEN), int(1000 * (await client.status())["now_s"])
        heard = key.sign_request("GET", "/v1/status", b"", now_ms=now_ms)
        assert (await ask(master.url + "/v1/status", heard))[0] == 200
        for headers in (
            heard,
            key.sign_request("GET", "/v1/report", b"", now_ms=now_ms),
            key.sign_request("GET", "/v1/status", b"", now_ms=now_ms - 3_600_000),
        ):
            code, text = await ask(master.url + "/v1/status", headers)
            assert code == 401
            assert not [name for name in NAMES if name in text]

    with_master(tmp_path, test)


def test_why_the_storage_cannot_be_listed_is_told_to_members_alone() -> None:
    status = {"refresh_error": "s3://planted: no such bucket", "refresh_error_kind": "NotFound"}
    empty: dict[str, Any] = {"snapshot": None, "workers": [], "mounts": [], "loads": []}
    counts = counts_of({**empty, **status, "a_field_of_a_later_version": "planted"})
    assert counts["refresh_error_kind"] == "NotFound"
    assert counts["refresh_error"]
    assert "planted" not in json.dumps(counts)


def test_a_status_that_somebody_changed_on_its_way_is_not_believed(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        async def relay(request: web.Request) -> web.StreamResponse:
            async with aiohttp.ClientSession() as session:
                signed = {
                    name: value for name, value in request.headers.items() if name.startswith("Headrace")
                }
                async with session.get(master.url + request.path_qs, headers=signed) as answer:
                    body = (await answer.read()).replace(b"shop", b"shoq")
                    told = {"Headrace-Signature": answer.headers["Headrace-Signature"]}
            return web.Response(body=body, headers=told)

        async with impostor(relay) as url, ControlClient(url, TOKEN) as asking:
            with pytest.raises(RefusedError, match="is not from the master"):
                await asking.status()

    with_master(tmp_path, test)


def test_a_master_of_an_earlier_version_is_understood() -> None:
    """It signs no status, and looks at no signature of one."""

    async def test() -> None:
        async def answer(_request: web.Request) -> web.StreamResponse:
            return web.json_response({"cluster": "shop", "workers": []})

        async with impostor(answer) as url, ControlClient(url, TOKEN) as client:
            assert (await client.status())["cluster"] == "shop"

    asyncio.run(test())
