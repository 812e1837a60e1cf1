"""The server over real TLS: it answers, whatever it is asked and whatever goes wrong behind it."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import aiohttp
import pytest
from yarl import URL

from headrace.errors import ConfigError
from headrace.listening.crowd import Bounds
from headrace.openmetrics import OPEN_METRICS
from headrace.webhook.answering import answer
from headrace.webhook.certificates import Pair, make_pair
from headrace.webhook.metrics import Result, Tally, metrics_text
from headrace.webhook.node_preference import HOST_LABEL, scheduling_label
from headrace.webhook.server import LARGEST_BODY_BYTES, AdmissionServer, ProbeServer
from headrace.webhook.serving_certificate import ServingContext

HOST = "localhost"
PATH = "/pods/of-api-servers"
LIFE = timedelta(days=90)
HOME = {"matchExpressions": [{"key": HOST_LABEL, "operator": "In", "values": ["a"]}]}
POD = {
    "metadata": {"generateName": "train-"},
    "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "imagenet"}}]},
}


def review(uid: str = "u-1", pod: Any = POD) -> dict[str, Any]:
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    request = {"uid": uid, "kind": kind, "operation": "CREATE", "namespace": "ml", "object": pod}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


class Known:
    """Knows one dataset."""

    async def homes(self, namespace: str, claims: Any) -> Any:
        return {"imagenet": (HOME,)} if namespace == "ml" else {}

    def leaving(self, namespace: str, claims: Any) -> Any:
        return [claim for claim in claims if claim == "old"]


class Silent(Known):
    """Never knows."""

    async def homes(self, namespace: str, claims: Any) -> Any:
        await asyncio.Event().wait()


class Broken(Known):
    """Fails in a way that nobody thought of."""

    async def homes(self, namespace: str, claims: Any) -> Any:
        raise KeyError("unheard of")


def pair() -> Pair:
    return make_pair((HOST,), datetime.now(UTC), LIFE)


def believing(authority: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority)


@asynccontextmanager
async def running(knowledge: Any, first: Pair, **options: Any) -> AsyncIterator[tuple[str, ServingContext]]:
    serving = ServingContext()
    serving.serve(first)
    server = AdmissionServer(
        partial(answer, knowledge=knowledge, **{"tally": Tally(), **options}), PATH.__eq__
    )
    port = await server.start("127.0.0.1", 0, serving.context)
    try:
        yield f"https://{HOST}:{port}{PATH}", serving
    finally:
        await server.close()


Story = Callable[[aiohttp.ClientSession, str], Awaitable[None]]


def tell(story: Story, knowledge: Any = None, **options: Any) -> None:
    async def told() -> None:
        first = pair()
        async with running(knowledge or Known(), first, **options) as (url, _):
            connector = aiohttp.TCPConnector(ssl=believing(first.authority), family=2)
            async with aiohttp.ClientSession(connector=connector) as session:
                await story(session, url)

    asyncio.run(told())


async def asked(session: aiohttp.ClientSession, url: str, content: Any) -> dict[str, Any]:
    async with session.post(url, json=content) as found:
        assert found.status == 200, await found.text()
        assert found.content_type == "application/json"
        response: dict[str, Any] = (await found.json())["response"]
        return response


def test_a_pod_of_a_dataset_is_steered() -> None:
    async def story(session: aiohttp.ClientSession, url: str) -> None:
        response = await asked(session, url, review("u-7"))
        assert (response["uid"], response["allowed"]) == ("u-7", True)
        (operation,) = json.loads(base64.b64decode(response["patch"]))
        assert operation["path"] == "/spec/affinity"

    tell(story)


def test_who_does_not_know_the_path_of_the_api_servers_is_told_nothing() -> None:
    tally = Tally()

    async def story(session: aiohttp.ClientSession, url: str) -> None:
        for path in ("/pods", "/", "/pods/", f"{PATH}x", PATH[:-1], f"/{PATH}", f"{PATH}/", "/pods/%00"):
            async with session.post(URL(f"{URL(url).origin()}{path}", encoded=True), json=review()) as found:
                assert (found.status, await found.text()) == (404, "nothing is here\n"), path
        assert (await asked(session, url, review("u-2")))["patch"]

    tell(story, tally=tally)
    assert dict(tally.answers) == {Result.STEERED: 1}, "strangers' questions are not even read"


def test_who_creates_a_pod_with_a_claim_that_is_being_deleted_is_told_that_it_waits() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "old"}}]
    tally = Tally()

    async def story(session: aiohttp.ClientSession, url: str) -> None:
        response = await asked(session, url, review("u-7", {"metadata": {}, "spec": {"volumes": volumes}}))
        assert response["allowed"] and "patch" not in response
        (warning,) = response["warnings"]
        assert "claim old is being deleted" in warning
        assert "warnings" not in await asked(session, url, review("u-8"))

    tell(story, tally=tally)
    assert tally.unmet == 0, "nothing was asked for in vain"


@pytest.mark.parametrize(
    ("knowledge", "words"), [(Silent(), "nothing was known in time"), (Broken(), "something is wrong here")]
)
def test_whatever_goes_wrong_the_pod_is_let_in_and_the_log_says_so(
    knowledge: Any, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(session: aiohttp.ClientSession, url: str) -> None:
        assert await asked(session, url, review("u-8")) == {"uid": "u-8", "allowed": True}

    tally = Tally()
    with caplog.at_level(logging.WARNING):
        tell(story, knowledge, deadline_s=0.05, tally=tally)
    assert dict(tally.answers) == {Result.LATE if isinstance(knowledge, Silent) else Result.FAILED: 1}
    assert f"pod ml/train-*: let in as it is, since {words}" in caplog.text


@pytest.mark.parametrize(
    "pod",
    [
        {"metadata": {}, "spec": {"volumes": 7}},
        {"metadata": [], "spec": []},
        {"metadata": "train", "spec": {"volumes": 7}},
        {"spec": {**POD["spec"], "affinity": "near"}},
        {"spec": {**POD["spec"], "affinity": {"nodeAffinity": []}}},
    ],
)
def test_a_pod_that_makes_no_sense_is_for_the_api_server_to_refuse(pod: Any) -> None:
    async def story(session: aiohttp.ClientSession, url: str) -> None:
        response = await asked(session, url, review("u-9", pod))
        assert (response["uid"], response["allowed"]) == ("u-9", True)

    tell(story)


def test_what_is_no_review_is_refused_and_the_next_one_is_answered() -> None:
    async def story(session: aiohttp.ClientSession, url: str) -> None:
        for body in (b"{", json.dumps(review() | {"apiVersion": "admission.k8s.io/v1beta1"}).encode()):
            async with session.post(url, data=body) as found:
                assert found.status == 400
        async with session.post(url, data=io.BytesIO(b" " * (LARGEST_BODY_BYTES + 1))) as found:
            assert found.status == 413
        assert (await asked(session, url, review("u-2")))["uid"] == "u-2"

    tell(story)


def test_who_says_nothing_or_half_of_it_keeps_no_api_server_out() -> None:
    async def told() -> None:
        first = pair()
        serving = ServingContext()
        serving.serve(first)
        server = AdmissionServer(
            partial(answer, knowledge=Known(), tally=Tally()),
            PATH.__eq__,
            bounds=Bounds(strangers_of_address=4),
        )
        port = await server.start("127.0.0.1", 0, serving.context)
        connector = aiohttp.TCPConnector(ssl=believing(first.authority), family=2, force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
            half = f"POST {PATH} HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{{".encode()
            for _ in range(4):
                idle.append(
                    await asyncio.open_connection(
                        "127.0.0.1", port, ssl=believing(first.authority), server_hostname=HOST
                    )
                )
                idle[-1][1].write(half)
                assert (await asked(session, f"https://{HOST}:{port}{PATH}", review("u-2")))["uid"] == "u-2"
            assert len(server.door.crowd) <= 4
            for _, writer in idle:
                writer.transport.abort()
        await server.close()

    asyncio.run(told())


def test_many_questions_at_once_each_get_their_own_answer() -> None:
    async def story(session: aiohttp.ClientSession, url: str) -> None:
        names = [f"u-{number}" for number in range(50)]
        answers = await asyncio.gather(*(asked(session, url, review(name)) for name in names))
        assert [each["uid"] for each in answers] == names

    tell(story)


def test_a_new_certificate_is_for_new_connections_and_breaks_no_open_one() -> None:
    async def told() -> None:
        first, second = pair(), pair()
        async with running(Known(), first) as (url, serving):
            old = aiohttp.TCPConnector(ssl=believing(first.authority), limit=1, family=2)
            new = aiohttp.TCPConnector(ssl=believing(second.authority), family=2)
            async with aiohttp.ClientSession(connector=old) as open_one:
                await asked(open_one, url, review())
                serving.serve(second)
                assert (await asked(open_one, url, review("u-3")))["uid"] == "u-3"
                async with aiohttp.ClientSession(connector=new) as fresh:
                    assert (await asked(fresh, url, review("u-4")))["uid"] == "u-4"
                late = aiohttp.TCPConnector(ssl=believing(first.authority), family=2)
                async with aiohttp.ClientSession(connector=late) as disbelieving:
                    with pytest.raises(aiohttp.ClientConnectorCertificateError):
                        await asked(disbelieving, url, review())

    asyncio.run(told())


def test_a_port_that_is_taken_is_named() -> None:
    async def told() -> None:
        first, second = ProbeServer(lambda: True, str), ProbeServer(lambda: True, str)
        port = await first.start("127.0.0.1", 0)
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}"):
            await second.start("127.0.0.1", port)
        await first.close()

    asyncio.run(told())


def test_what_became_of_pods_is_counted() -> None:
    tally = Tally()
    demanding = {**POD, "metadata": {"labels": {scheduling_label("imagenet"): "required"}}}
    demanding["spec"] = {**POD["spec"], "nodeSelector": {HOST_LABEL: "z"}}

    async def story(session: aiohttp.ClientSession, url: str) -> None:
        for pod in (POD, POD, {"spec": {}}, demanding):
            await asked(session, url, review("u-1", pod))

    tell(story, tally=tally)
    # Its node is chosen, so the demand cannot be met; it is a wish then.
    assert dict(tally.answers) == {Result.STEERED: 3, Result.UNCHANGED: 1}
    assert tally.unmet == 1
    assert 0 < tally.seconds < 10


def test_the_page_of_metrics_is_one_that_prometheus_reads() -> None:
    tally = Tally()
    tally.count(Result.STEERED, 0.25, is_unmet=False)
    ends = datetime(2030, 1, 1, tzinfo=UTC)

    async def told() -> None:
        probes = ProbeServer(lambda: True, lambda: metrics_text(tally, is_ready=True, ends=ends))
        port = await probes.start("127.0.0.1", 0)
        async with aiohttp.request("GET", f"http://127.0.0.1:{port}/metrics") as found:
            assert found.headers["Content-Type"] == OPEN_METRICS
            text = await found.text()
        lines = text.splitlines()
        assert lines[-1] == "# EOF"
        samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        assert samples['headrace_webhook_answers_total{result="steered"}'] == "1.0"
        assert samples['headrace_webhook_answers_total{result="late"}'] == "0.0"
        assert samples["headrace_webhook_answer_seconds_total"] == "0.25"
        assert samples["headrace_webhook_ready"] == "1.0"
        assert float(samples["headrace_webhook_certificate_ends_seconds"]) == ends.timestamp()
        await probes.close()

    asyncio.run(told())


def test_probes_tell_life_from_readiness() -> None:
    async def told() -> None:
        ready = False
        probes = ProbeServer(lambda: ready, str)
        port = await probes.start("127.0.0.1", 0)

        async def status(page: str) -> int:
            async with aiohttp.request("GET", f"http://127.0.0.1:{port}{page}") as found:
                return found.status

        assert [await status(page) for page in ("/healthz", "/readyz")] == [200, 503]
        ready = True
        assert await status("/readyz") == 200
        await probes.close()

    asyncio.run(told())


@pytest.mark.parametrize("padding_bytes", [0, 5_000, 200_000])
def test_every_question_of_a_kept_connection_is_answered_however_it_is_cut_into_records(
    padding_bytes: int,
) -> None:
    """As Go's clients send: pieces of 4 KiB, and the next question as soon as the answer before it is there."""

    async def told() -> None:
        first = pair()
        async with running(Known(), first) as (url, _):
            port, tls = URL(url).port, believing(first.authority)
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=HOST)
            body = json.dumps(review()).encode() + b" " * padding_bytes
            head = f"POST {PATH} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            for _ in range(30):
                for at in range(0, len(head + body), 4096):
                    writer.write((head + body)[at : at + 4096])
                    await writer.drain()
                assert await asyncio.wait_for(_status_and_body(reader), timeout=30) == 200
            writer.transport.abort()

    asyncio.run(told())


async def _status_and_body(reader: asyncio.StreamReader) -> int:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(line for line in head.splitlines() if line.lower().startswith("content-length:"))
    await reader.readexactly(int(length.partition(":")[2]))
    return int(head.split()[1])
