"""Logs of pods, kinds that are served and metrics, asked of a server that answers as Kubernetes does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from kubernetes_asyncio.client.configuration import Configuration

from headrace.errors import ConfigError, MissingFileError, OriginUnreachableError
from headrace.kube.client import KubeClient
from headrace.kube.connection import configuration, default_namespace
from headrace.kube.discovery import at_version, served_versions
from headrace.kube.pod_logs import LogQuery, log_lines
from headrace.kube.pod_metrics import DirectScraper, ProxiedScraper

POD = "/api/v1/namespaces/ml/pods/p"


class Api:
    """Answers by path: text, an object, a status, or pieces that end with a broken connection."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = answers
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.port = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, dict(request.query)))
        answer = self.answers.get(request.path)
        if answer is None or isinstance(answer, int):
            return web.json_response({"message": "it says no"}, status=answer or 404)
        if isinstance(answer, dict):
            return web.json_response(answer)
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in answer:
            if piece is None:
                assert request.transport is not None
                request.transport.abort()
                break
            await response.write(piece)
        return response

    @asynccontextmanager
    async def client(self) -> AsyncIterator[KubeClient]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        try:
            async with KubeClient(Configuration(host=f"http://127.0.0.1:{self.port}")) as client:
                yield client
        finally:
            await runner.cleanup()


def lines(api: Api, query: LogQuery | None = None) -> list[bytes]:
    async def read() -> list[bytes]:
        async with api.client() as client:
            return [line async for line in log_lines(client, "ml", "p", query or LogQuery())]

    return asyncio.run(read())


def test_lines_come_whole_however_they_are_cut() -> None:
    api = Api(**{f"{POD}/log": [b"on", b"e\ntwo\n\nth", "ree é".encode()]})
    assert lines(api) == [b"one\n", b"two\n", b"\n", "three é".encode()]


def test_a_line_without_an_end_comes_in_parts() -> None:
    found = lines(Api(**{f"{POD}/log": [b"x" * (64 << 10)] * 10}))
    assert b"".join(found) == b"x" * (640 << 10)
    assert max(map(len, found)) <= 512 << 10


def test_the_server_is_asked_for_what_is_wanted_and_no_more() -> None:
    api = Api(**{f"{POD}/log": [b"x\n"]})
    moment = datetime(2026, 1, 31, 10, 30, tzinfo=timezone(timedelta(hours=1)))
    lines(api, LogQuery("mpi", follow=True, tail=0, since=moment, timestamps=True))
    lines(api)
    assert [query for _, query in api.asked] == [
        {
            "container": "mpi",
            "follow": "true",
            "tailLines": "0",
            "sinceTime": "2026-01-31T09:30:00Z",
            "timestamps": "true",
        },
        {},
    ]


@pytest.mark.parametrize(
    ("answer", "error"),
    [(404, MissingFileError), (400, ConfigError), ([b"half", None], OriginUnreachableError)],
)
def test_what_goes_wrong_with_a_log_is_told(answer: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        lines(Api(**{f"{POD}/log": answer}))


def test_versions_of_kinds_are_as_the_server_prefers_them() -> None:
    def served(*kinds: str) -> dict[str, Any]:
        named = [{"name": f"{kind.lower()}s", "kind": kind} for kind in kinds]
        return {"resources": [*named, {"name": f"{kinds[0].lower()}s/status", "kind": kinds[0]}]}

    api = Api(
        **{
            "/apis/kubeflow.org": {"versions": [{"version": each} for each in ("v2beta1", "v1", "v0")]},
            "/apis/kubeflow.org/v2beta1": served("MPIJob"),
            "/apis/kubeflow.org/v1": served("MPIJob", "TFJob"),
        }
    )

    async def ask(group: str) -> dict[str, tuple[str, ...]]:
        async with api.client() as client:
            return await served_versions(client, group)

    assert asyncio.run(ask("kubeflow.org")) == {"MPIJob": ("v2beta1", "v1"), "TFJob": ("v1",)}
    assert asyncio.run(ask("nowhere.org")) == {}


def test_a_kind_is_asked_for_at_the_version_that_is_served() -> None:
    path = "/apis/kubeflow.org/v1/namespaces/ml/mpijobs"
    api = Api(**{path: {"items": [{"metadata": {"name": "resnet"}}]}})

    async def listed() -> list[dict[str, Any]]:
        async with api.client() as client:
            client.serve(at_version("MPIJob", "v1"))
            return await client.list("MPIJob", "ml", {"a": None, "b": "c"})

    (found,) = asyncio.run(listed())
    assert (found["apiVersion"], found["kind"]) == ("kubeflow.org/v1", "MPIJob")
    assert api.asked[0][1]["labelSelector"] == "a,b=c"


def test_metrics_of_a_pod_come_from_itself_or_through_the_api_server() -> None:
    api = Api(**{"/metrics": [b"a 1\n"], f"{POD}:9700/proxy/metrics": [b"b ", b"2\n"]})
    pod = {"metadata": {"namespace": "ml", "name": "p"}, "status": {"podIP": "127.0.0.1"}}
    elsewhere = {"metadata": {"namespace": "ml", "name": "q"}, "status": {}}

    async def ask() -> list[str | None]:
        async with api.client() as client:
            proxied, direct = ProxiedScraper(client), DirectScraper()
            return [
                await direct.text(pod, api.port),
                await proxied.text(pod, 9700),
                await direct.text(elsewhere, api.port),
                await proxied.text(elsewhere, 9700),
            ]

    assert asyncio.run(ask()) == ["a 1\n", "b 2\n", None, None]


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}, {name: d, cluster: {server: "http://127.0.0.1:2"}}]
contexts:
  - {name: one, context: {cluster: c, namespace: team-a}}
  - {name: two, context: {cluster: d}}
current-context: one
"""


def test_a_context_names_the_cluster_and_the_namespace(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(KUBECONFIG)
    assert default_namespace(str(file)) == "team-a"
    assert default_namespace(str(file), "two") == "default"
    hosts = [asyncio.run(configuration(str(file), context)).host for context in (None, "two")]
    assert hosts == ["http://127.0.0.1:1", "http://127.0.0.1:2"]


def test_a_kubeconfig_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert default_namespace(str(tmp_path / "none")) == "default"
    with pytest.raises(ConfigError, match="no Kubernetes is known"):
        asyncio.run(configuration(str(tmp_path / "none")))
