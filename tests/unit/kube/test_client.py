"""The client against a server that answers as Kubernetes does, well and badly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from kubernetes_asyncio.client.configuration import Configuration

from headrace.errors import (
    BusyError,
    ConfigError,
    EngineError,
    HeadraceError,
    MissingFileError,
    OriginUnreachableError,
    RefusedError,
)
from headrace.kube.client import KubeClient
from headrace.kube.faults import ConflictError

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}}
TOKEN = "very-secret-token"


class Server:
    """Answers each request as it is told, and remembers what was asked."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str, dict[str, str], str, bytes]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        kind = request.headers.get("Content-Type", "")
        self.asked.append((request.method, request.path, dict(request.query), kind, body))
        return await self.answer(request)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[KubeClient]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        settings = Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")
        settings.api_key = {"BearerToken": TOKEN}
        settings.api_key_prefix = {"BearerToken": "Bearer"}
        try:
            async with KubeClient(settings) as client:
                yield client
        finally:
            await runner.cleanup()


def says(content: Any, status: int = 200) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(content, status=status)

    return answer


def ask(answer: Answer, call: Callable[[KubeClient], Awaitable[Any]]) -> tuple[Any, Server]:
    server = Server(answer)

    async def run() -> Any:
        async with server.client() as client:
            return await call(client)

    return asyncio.run(run()), server


def fault(answer: Answer, call: Callable[[KubeClient], Awaitable[Any]]) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        ask(answer, call)
    return caught.value


@pytest.mark.parametrize(
    ("call", "method", "path", "content_type"),
    [
        (lambda each: each.get("Pod", "n", "p"), "GET", "/api/v1/namespaces/n/pods/p", "application/json"),
        (lambda each: each.create(POD), "POST", "/api/v1/namespaces/n/pods", "application/json"),
        (lambda each: each.replace(POD), "PUT", "/api/v1/namespaces/n/pods/p", "application/json"),
        (
            lambda each: each.apply(POD),
            "PATCH",
            "/api/v1/namespaces/n/pods/p",
            "application/apply-patch+yaml",
        ),
        (
            lambda each: each.patch("Dataset", "n", "d", {"status": {}}, "status"),
            "PATCH",
            "/apis/data.fluid.io/v1alpha1/namespaces/n/datasets/d/status",
            "application/merge-patch+json",
        ),
        (
            lambda each: each.delete("PersistentVolume", None, "v", uid="u", grace_s=0),
            "DELETE",
            "/api/v1/persistentvolumes/v",
            "application/json",
        ),
    ],
)
def test_each_call_asks_for_its_object(
    call: Callable[[KubeClient], Awaitable[Any]], method: str, path: str, content_type: str
) -> None:
    _, server = ask(says({"metadata": {}}), call)
    (asked,) = server.asked
    assert (asked[0], asked[1], asked[3].partition(";")[0]) == (method, path, content_type)


def test_what_is_applied_is_owned_by_us_and_a_deletion_is_of_that_very_object() -> None:
    _, server = ask(says({}), lambda each: each.apply(POD))
    assert server.asked[0][2] == {"fieldManager": "headrace-operator", "force": "true"}
    _, server = ask(says({}), lambda each: each.delete("Pod", "n", "p", uid="u-1", grace_s=0))
    assert json.loads(server.asked[0][4]) == {
        "propagationPolicy": "Background",
        "preconditions": {"uid": "u-1"},
        "gracePeriodSeconds": 0,
    }


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ConfigError),
        (401, RefusedError),
        (403, RefusedError),
        (404, MissingFileError),
        (409, ConflictError),
        (422, ConfigError),
        (429, BusyError),
        (500, EngineError),
        (503, BusyError),
        (504, EngineError),
    ],
)
@pytest.mark.parametrize("body", [{"kind": "Status", "reason": "Why", "message": "because"}, "no status", []])
def test_a_refusal_names_the_object_and_the_reason(
    status: int, kind: type[HeadraceError], body: dict[str, Any] | str | list[Any]
) -> None:
    error = fault(says(body, status), lambda each: each.apply(POD))
    assert type(error) is kind
    assert "change Pod n/p" in error.message
    assert TOKEN not in f"{error.message} {error.hint}"
    if isinstance(body, dict) and status != 404:
        assert "because" in error.message


def test_a_refusal_never_repeats_what_was_sent() -> None:
    secret = {"kind": "Secret", "metadata": {"name": "s", "namespace": "n"}, "data": {"key": "aHVudGVyMg=="}}
    error = fault(says({"message": "no"}, 422), lambda each: each.create(secret))
    assert "aHVudGVyMg" not in repr(error) + str(error.__cause__)
    assert "Secret n/s" in error.message


def test_what_is_not_there_is_none_to_read_and_nothing_to_delete() -> None:
    assert ask(says({}, 404), lambda each: each.get("Pod", "n", "p"))[0] is None
    assert ask(says({}, 404), lambda each: each.delete("Pod", "n", "p"))[0] is None


def test_a_long_list_is_read_page_by_page() -> None:
    async def pages(request: web.Request) -> web.StreamResponse:
        more = {} if "continue" in request.query else {"continue": "next"}
        name = "two" if "continue" in request.query else "one"
        return web.json_response({"metadata": more, "items": [{"metadata": {"name": name}}]})

    found, server = ask(pages, lambda each: each.list("Dataset", labels={"a": "b"}))
    assert [each["metadata"]["name"] for each in found] == ["one", "two"]
    assert {each["kind"] for each in found} == {"Dataset"}
    assert [asked[2].get("continue") for asked in server.asked] == [None, "next"]
    assert server.asked[1][2]["labelSelector"] == "a=b"


@pytest.mark.parametrize("when", ["before", "within"])
def test_a_server_that_breaks_off_is_unreachable(when: str) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        if when == "within":
            answer = web.StreamResponse(headers={"Content-Length": "100"})
            await answer.prepare(request)
            await answer.write(b"{")
        request.transport.abort()
        return web.Response()

    error = fault(broken, lambda each: each.get("Pod", "n", "p"))
    assert isinstance(error, OriginUnreachableError)
    assert "read Pod n/p" in error.message
    assert TOKEN not in error.message


def test_nobody_at_the_address_is_unreachable() -> None:
    async def run() -> None:
        settings = Configuration(host="http://127.0.0.1:1")
        async with KubeClient(settings) as client:
            await client.get("Pod", "n", "p")

    with pytest.raises(OriginUnreachableError, match="does not answer"):
        asyncio.run(run())


def change(what: str, name: str, version: str) -> bytes:
    content = {"metadata": {"name": name, "resourceVersion": version}}
    return json.dumps({"type": what, "object": content}).encode() + b"\n"


class Watched:
    """A list, and then a watch that says something and ends in one way or another; after that, all anew."""

    def __init__(self, end: str) -> None:
        self.end, self.lists = end, 0

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            self.lists += 1
            items = [{"metadata": {"name": f"listed-{self.lists}"}}]
            return web.json_response({"metadata": {"resourceVersion": "7"}, "items": items})
        if self.end == "gone at once":
            return web.json_response({"message": "too old"}, status=410)
        answer = web.StreamResponse()
        await answer.prepare(request)
        # An object may be longer than any buffer, and comes in pieces.
        text = (
            change("ADDED", "a" * 300_000, "8") + change("BOOKMARK", "", "9") + change("DELETED", "b", "10")
        )
        for begin in range(0, len(text), 65536):
            await answer.write(text[begin : begin + 65536])
        if self.end == "gone":
            gone = {"type": "ERROR", "object": {"code": 410, "message": "too old"}}
            await answer.write(json.dumps(gone).encode() + b"\n")
        if self.end == "broken":
            assert isinstance(request.transport, asyncio.WriteTransport)
            # What was not given to the kernel yet would be thrown away.
            while request.transport.get_write_buffer_size():
                await asyncio.sleep(0.001)
            request.transport.abort()
        return answer


async def first(client: KubeClient, count: int) -> list[tuple[str, str]]:
    found = []
    async for what, content in client.watch("Dataset"):
        found.append((what, content.get("metadata", {}).get("name", "")[:8]))
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("end", ["gone", "broken"])
def test_a_watch_that_breaks_begins_anew_with_a_list(end: str) -> None:
    """It waits a second before it asks again, as it does in earnest."""
    watched = Watched(end)
    found, server = ask(watched, lambda each: first(each, 6))
    assert found == [
        ("SYNC", "listed-1"),
        ("SYNCED", ""),
        ("ADDED", "aaaaaaaa"),
        ("DELETED", "b"),
        ("SYNC", "listed-2"),
        ("SYNCED", ""),
    ]
    assert server.asked[1][2]["resourceVersion"] == "7"


def test_a_watch_that_ends_by_itself_goes_on_where_it_was() -> None:
    watched = Watched("well")
    found, server = ask(watched, lambda each: first(each, 6))
    assert [what for what, _ in found] == ["SYNC", "SYNCED", "ADDED", "DELETED", "ADDED", "DELETED"]
    assert [asked[2].get("resourceVersion") for asked in server.asked] == [None, "7", "10"]


def test_a_watch_that_is_too_old_at_once_lists_again() -> None:
    watched = Watched("gone at once")
    found, _ = ask(watched, lambda each: first(each, 4))
    assert [what for what, _ in found] == ["SYNC", "SYNCED", "SYNC", "SYNCED"]


def test_a_watch_without_the_right_says_so() -> None:
    error = fault(says({"message": "forbidden"}, 403), lambda each: first(each, 1))
    assert isinstance(error, RefusedError)
    assert "read Dataset" in error.message


async def proxy(_: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>please log in</html>", content_type="text/html")


def test_an_answer_of_somebody_else_is_an_error_of_ours() -> None:
    error = fault(proxy, lambda each: each.get("Pod", "n", "p"))
    assert isinstance(error, OriginUnreachableError)
    assert "read Pod n/p" in error.message


def test_a_watch_that_is_told_nonsense_lists_again() -> None:
    """It waits a second before it asks again, as it does in earnest."""
    lists = says({"metadata": {"resourceVersion": "7"}, "items": []})

    async def nonsense(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>\n") if "watch" in request.query else await lists(request)

    found, _ = ask(nonsense, lambda each: first(each, 2))
    assert [what for what, _ in found] == ["SYNCED", "SYNCED"]
