"""What authors of datasets and runtimes are told at once: over the real server, as an API server asks it."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import aiohttp
import pytest

from headrace.api.names import API_VERSION
from headrace.plan.policy import Policy
from headrace.webhook.answering import answer
from headrace.webhook.certificates import make_pair
from headrace.webhook.metrics import Result, Tally
from headrace.webhook.mirror import Mirror
from headrace.webhook.server import AdmissionServer
from headrace.webhook.serving_certificate import ServingContext

PATH = "/pods/of-api-servers"
Content = dict[str, Any]


def dataset(*mount_points: str, name: str = "mine", **spec: Any) -> Content:
    mounts = [{"mountPoint": each, "name": f"m{number}"} for number, each in enumerate(mount_points)]
    return _object("Dataset", name, {"mounts": mounts, **spec})


def runtime(name: str = "mine", **spec: Any) -> Content:
    return _object("AlluxioRuntime", name, {"replicas": 1, **spec})


def _object(kind: str, name: str, spec: Content) -> Content:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def review(thing: Content, before: Content | None = None, namespace: str = "ml") -> Content:
    group, _, version = API_VERSION.partition("/")
    request = {
        "uid": "u-1",
        "kind": {"group": group, "version": version, "kind": thing["kind"]},
        "operation": "UPDATE" if before else "CREATE",
        "namespace": namespace,
        "object": thing,
        "oldObject": before,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


class Cluster:
    """What an API server has: some of it the watches have told already, some of it is younger."""

    def __init__(self, seen: Mapping[str, Content], young: Mapping[str, Content] | None = None) -> None:
        self._seen, self._all = seen, {**seen, **(young or {})}
        self.asked: list[str] = []

    async def get(self, kind: str, namespace: str | None, name: str) -> Content | None:
        self.asked.append(f"{namespace}/{name}")
        return self._all.get(f"{namespace}/{name}")

    async def watch(self, kind: str, namespace: str | None = None, labels: Any = None) -> Any:
        if kind == "Dataset":
            for key, each in self._seen.items():
                place, _, name = key.partition("/")
                yield "SYNC", {**each, "metadata": {"namespace": place, "name": name}}
        yield "SYNCED", {}
        await asyncio.Event().wait()


def told(*reviews: Content, cluster: Cluster | None = None, tally: Tally | None = None) -> list[Content]:
    """The answers of a real server to reviews."""

    async def ask() -> list[Content]:
        serving = ServingContext()
        pair = make_pair(("localhost",), datetime.now(UTC), timedelta(days=90))
        serving.serve(pair)
        mirror = Mirror(cluster or Cluster({}))
        answering = partial(answer, knowledge=mirror, tally=tally or Tally(), policy=Policy())
        server = AdmissionServer(answering, PATH.__eq__)
        port = await server.start("127.0.0.1", 0, serving.context)
        following = asyncio.create_task(mirror.follow())
        trust = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=pair.authority), family=2)
        try:
            async with aiohttp.ClientSession(connector=trust) as session:
                found = []
                for each in reviews:
                    async with session.post(f"https://localhost:{port}{PATH}", json=each) as response:
                        assert response.status == 200, await response.text()
                        found.append((await response.json())["response"])
                return found
        finally:
            following.cancel()
            await server.close()

    return asyncio.run(ask())


def test_who_writes_what_the_policy_leaves_out_is_warned_and_the_object_taken() -> None:
    asked = runtime(
        fuse={"env": {"LD_PRELOAD": "/evil.so"}},
        master={"env": {"TZ": "UTC", "PYTHONPATH": "/evil"}},
        podMetadata={"annotations": {"example.com/inject": "yes"}},
        tieredstore={"levels": [{"mediumtype": "SSD", "path": "/etc", "quota": "1Gi"}]},
    )
    tally = Tally()
    (answer,) = told(review(asked), tally=tally)
    assert answer["allowed"]
    said = "\n".join(answer["warnings"])
    for field in ("spec.fuse.env.LD_PRELOAD", "spec.master.env.PYTHONPATH", "example.com/inject", "/etc"):
        assert field in said
    assert "TZ" not in said
    assert tally.answers == {Result.WARNED: 1}


def test_what_the_policy_allows_is_taken_without_a_word() -> None:
    things = (
        runtime(master={"env": {"TZ": "UTC"}}, labels={"team": "a"}),
        dataset("s3://bucket/images"),
        dataset("dataset://ml/other"),
        _object("DataLoad", "warm", {"dataset": {"name": "mine", "namespace": "ml"}}),
    )
    assert told(*map(review, things)) == [{"uid": "u-1", "allowed": True}] * len(things)


def test_warnings_are_as_many_and_as_long_as_an_api_server_shows() -> None:
    names = {f"X{number}_{'LONG' * 60}": "1" for number in range(40)}
    (answer,) = told(review(runtime(fuse={"env": names})))
    assert len(answer["warnings"]) == 16 and "25 more" in answer["warnings"][-1]
    assert all(len(each.encode()) <= 256 for each in answer["warnings"])


def test_a_dataset_that_is_not_shared_is_refused_whether_it_exists_or_not() -> None:
    cluster = Cluster({"owner/secret": dataset("s3://b", sharedWith=["friends"])})
    tally = Tally()
    secret, nothing = told(
        review(dataset("dataset://owner/secret")),
        review(dataset("dataset://owner/nothing")),
        cluster=cluster,
        tally=tally,
    )
    assert not secret["allowed"] and not nothing["allowed"]
    words = secret["status"]["message"]
    assert "ml/mine refers to dataset owner/secret, which is not shared with namespace ml" in words
    assert nothing["status"]["message"] == words.replace("secret", "nothing"), (
        "else it would tell which exist"
    )
    assert tally.answers == {Result.REFUSED: 2}


@pytest.mark.parametrize("shared_with", [["ml"], ["*"], ["a", "ml"]])
def test_a_dataset_that_is_shared_may_be_referred_to(shared_with: list[str]) -> None:
    cluster = Cluster({"owner/open": dataset("s3://b", sharedWith=shared_with)})
    (answer,) = told(review(dataset("dataset://owner/open/sub")), cluster=cluster)
    assert answer["allowed"] and not cluster.asked, "watches know it"


def test_consent_that_is_younger_than_what_watches_told_counts() -> None:
    cluster = Cluster({"owner/open": dataset("s3://b")}, {"owner/open": dataset("s3://b", sharedWith=["ml"])})
    (answer,) = told(review(dataset("dataset://owner/open")), cluster=cluster)
    assert answer["allowed"]


def test_what_can_never_be_right_is_refused_with_the_field() -> None:
    wrong = dataset("s3://bucket", sharedWith=["a", "a"])
    (answer,) = told(review(wrong))
    assert not answer["allowed"]
    assert answer["status"] == {"code": 422, "message": "spec.sharedWith: names a namespace twice"}


def test_nobody_is_kept_from_changing_anything_but_what_is_asked_for() -> None:
    """The operator puts finalizers on objects that an earlier release took, and takes them away."""
    wrong = dataset("dataset://owner/secret", sharedWith=["a", "a"])
    marked = {**wrong, "metadata": {**wrong["metadata"], "finalizers": ["headrace.io/dataset"]}}
    leaving = {**wrong, "metadata": {**wrong["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    more = dataset("dataset://owner/secret", "s3://b", sharedWith=["a", "a"])
    answers = told(review(marked, wrong), review(leaving, more), review(more, wrong))
    assert [each["allowed"] for each in answers] == [True, True, False]


@pytest.mark.parametrize("thing", [{"kind": "Dataset"}, {"kind": "Dataset", "metadata": 7}])
def test_what_is_no_object_is_for_the_api_server_to_refuse(thing: Content) -> None:
    assert told(review(thing)) == [{"uid": "u-1", "allowed": True}]


def test_an_api_server_that_does_not_answer_keeps_nobody_from_declaring(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Away(Cluster):
        async def get(self, kind: str, namespace: str | None, name: str) -> Content | None:
            raise OSError("away")

    tally = Tally()
    with caplog.at_level(logging.WARNING):
        (answer,) = told(review(dataset("dataset://owner/any")), cluster=Away({}), tally=tally)
    assert answer["allowed"] and tally.answers == {Result.FAILED: 1}
    assert "dataset ml/mine: taken as it is" in caplog.text
