"""The copies that decisions are made from, as watches fill them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from headrace.errors import MissingFileError, OriginUnreachableError
from headrace.webhook import mirror as mirrors
from headrace.webhook.mirror import Mirror

HOSTS = "kubernetes.io/hostname"


def named(name: str, namespace: str = "ml", **rest: Any) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "headrace-operator"}
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, **rest}


def dataset(name: str) -> dict[str, Any]:
    return named(name, spec={"mounts": [{"mountPoint": "s3://bucket/x", "options": {"secret": "word"}}]})


def runtime(name: str, *nodes: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": HOSTS, "operator": "In", "values": list(nodes)}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return named(name, status={"cacheAffinity": required, "phase": "x"})


class Feeds:
    """Watches whose events the test tells; an error as an event is raised."""

    def __init__(self) -> None:
        self.queues: dict[str, asyncio.Queue[Any]] = {}
        self.labels: dict[str, Any] = {}

    async def watch(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        self.labels[kind] = labels
        while True:
            event = await self._queue(kind).get()
            if isinstance(event, Exception):
                raise event
            yield event

    def tell(self, kind: str, *events: Any) -> None:
        for event in events:
            self._queue(kind).put_nowait(event)

    def _queue(self, kind: str) -> asyncio.Queue[Any]:
        return self.queues.setdefault(kind, asyncio.Queue())


SYNCED = ("SYNCED", {})


def tell(story: Callable[[Feeds, Mirror], Awaitable[None]]) -> None:
    async def told() -> None:
        feeds = Feeds()
        mirror = Mirror(feeds)
        following = asyncio.create_task(mirror.follow())
        try:
            await asyncio.wait_for(story(feeds, mirror), 120)
        finally:
            following.cancel()
            await asyncio.wait({following})

    asyncio.run(told())


def all_there(feeds: Feeds) -> None:
    feeds.tell("Dataset", ("SYNC", dataset("imagenet")), SYNCED)
    feeds.tell("AlluxioRuntime", SYNCED)
    feeds.tell("JindoRuntime", ("SYNC", runtime("imagenet", "a")), SYNCED)
    feeds.tell("PersistentVolumeClaim", ("SYNC", named("imagenet")), SYNCED)


async def nodes(mirror: Mirror, name: str = "imagenet") -> Any:
    found = await mirror.homes("ml", [name])
    return [term["matchExpressions"][0]["values"] for term in found[name]] if name in found else None


async def until(mirror: Mirror, expected: Any, name: str = "imagenet") -> None:
    while await nodes(mirror, name) != expected:
        await asyncio.sleep(0.01)


def test_nothing_is_told_before_everything_was_listed() -> None:
    async def story(feeds: Feeds, mirror: Mirror) -> None:
        feeds.tell("Dataset", ("SYNC", dataset("imagenet")), SYNCED)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(nodes(mirror), 0.05)
        assert not mirror.is_whole
        all_there(feeds)
        assert await nodes(mirror) == [["a"]]
        assert mirror.is_whole

    tell(story)


def test_claims_of_ours_that_are_being_deleted_are_known() -> None:
    async def story(feeds: Feeds, mirror: Mirror) -> None:
        all_there(feeds)
        await until(mirror, [["a"]])
        assert mirror.leaving("ml", ["imagenet", "other"]) == ()
        claim = named("imagenet")
        leaving = {**claim["metadata"], "deletionTimestamp": "2026-01-31T09:30:00Z"}
        feeds.tell("PersistentVolumeClaim", ("MODIFIED", {**claim, "metadata": leaving}))
        while not mirror.leaving("ml", ["imagenet"]):
            await asyncio.sleep(0.01)
        assert mirror.leaving("elsewhere", ["imagenet"]) == ()

    tell(story)


def test_changes_are_followed() -> None:
    async def story(feeds: Feeds, mirror: Mirror) -> None:
        all_there(feeds)
        await until(mirror, [["a"]])
        feeds.tell("JindoRuntime", ("MODIFIED", runtime("imagenet", "a", "b")))
        await until(mirror, [["a", "b"]])
        feeds.tell("JindoRuntime", ("DELETED", runtime("imagenet")))
        await until(mirror, [])
        feeds.tell("Dataset", ("DELETED", dataset("imagenet")))
        await until(mirror, None)

    tell(story)


def test_after_a_break_the_new_list_replaces_the_old_one_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "_AGAIN_S", (0.01,))

    async def story(feeds: Feeds, mirror: Mirror) -> None:
        all_there(feeds)
        await until(mirror, [["a"]])
        feeds.tell("Dataset", OriginUnreachableError.of("cut off"), ("SYNC", dataset("coco")))
        await asyncio.sleep(0.1)
        assert await nodes(mirror) == [["a"]], "half a list is no list"
        feeds.tell("Dataset", SYNCED)
        await until(mirror, None)

    tell(story)


@pytest.mark.parametrize("fault", [OriginUnreachableError.of("cut off"), KeyError("metadata")])
def test_no_fault_of_a_watch_ends_it(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "_AGAIN_S", (0.01,))

    async def story(feeds: Feeds, mirror: Mirror) -> None:
        feeds.tell("JindoRuntime", fault, fault)
        all_there(feeds)
        await until(mirror, [["a"]])

    tell(story)


def test_a_kind_that_is_not_installed_has_no_objects() -> None:
    async def story(feeds: Feeds, mirror: Mirror) -> None:
        feeds.tell("AlluxioRuntime", MissingFileError.of("there is none"))
        all_there(feeds)
        await until(mirror, [["a"]])

    tell(story)


def test_only_the_operators_claims_are_watched_and_only_what_is_looked_at_is_kept() -> None:
    async def story(feeds: Feeds, mirror: Mirror) -> None:
        all_there(feeds)
        await until(mirror, [["a"]])
        assert feeds.labels["PersistentVolumeClaim"] == {"app.kubernetes.io/managed-by": "headrace-operator"}
        assert "word" not in str([copy.objects for copy in mirror._copies])

    tell(story)
