"""Replicas that keep one certificate: they agree, and whoever believes what is announced believes each of them.

Secret and configuration are in memory, with the API server's optimistic concurrency; tests/kubernetes has a real one.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import re
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from handshakes import handshake

from headrace.errors import RefusedError
from headrace.kube.faults import ConflictError
from headrace.webhook.certificate_keeper import SECRET, CertificateKeeper, Place, announced
from headrace.webhook.certificate_rotation import Kept, Rules, data_of
from headrace.webhook.certificates import make_pair
from headrace.webhook.serving_certificate import ServingContext

PLACE = Place("headrace-webhook", "headrace-system", "headrace-webhook")
HOST = "headrace-webhook.headrace-system.svc"
SERVICE = {"name": "headrace-webhook", "namespace": "headrace-system", "path": "/pods"}
# Handshakes go by the true clock, so lives lie around it, and are long.
RULES = Rules(life=timedelta(days=90), grace_s=120)


class Memory:
    """Objects under optimistic concurrency; each call lets others go first."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.writes = 0
        self.refused: set[str] = set()
        self.put({"kind": "Secret", "metadata": {"name": SECRET, "labels": {"a": "b"}}, "type": "Opaque"})
        self.put(
            {
                "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": "headrace-webhook"},
                "webhooks": [{"name": "pods.headrace.io", "clientConfig": {"service": SERVICE}}],
            }
        )

    def put(self, content: dict[str, Any]) -> dict[str, Any]:
        self.writes += 1
        stored = copy.deepcopy(content)
        stored["metadata"]["resourceVersion"] = str(self.writes)
        self.objects[content["kind"], content["metadata"]["name"]] = stored
        return stored

    async def get(self, kind: str, namespace: str | None, name: str) -> dict[str, Any] | None:
        await self._reach(kind)
        return copy.deepcopy(self.objects.get((kind, name)))

    async def replace(self, content: dict[str, Any]) -> dict[str, Any]:
        await self._reach(content["kind"])
        present = self.objects[content["kind"], content["metadata"]["name"]]
        if present["metadata"]["resourceVersion"] != content["metadata"]["resourceVersion"]:
            raise ConflictError.of("it changed")
        return self.put(content)

    async def _reach(self, kind: str) -> None:
        await asyncio.sleep(0)
        if kind in self.refused:
            raise RefusedError.of(f"no right to {kind}")

    @property
    def path(self) -> str:
        (webhook,) = self.objects["MutatingWebhookConfiguration", "headrace-webhook"]["webhooks"]
        return str(webhook["clientConfig"]["service"]["path"])

    @property
    def bundle(self) -> str:
        (webhook,) = self.objects["MutatingWebhookConfiguration", "headrace-webhook"]["webhooks"]
        return base64.b64decode(webhook["clientConfig"].get("caBundle", "")).decode()


class Replica:
    """A keeper with clocks that the test turns."""

    def __init__(self, memory: Memory, behind: timedelta = timedelta()) -> None:
        self.time = datetime.now(UTC) - behind
        self.seconds = 1000.0
        self.serving = ServingContext()
        self.keeper = CertificateKeeper(
            memory, PLACE, self.serving, rules=RULES, now=lambda: self.time, monotonic=lambda: self.seconds
        )

    def pass_time(self, passed: timedelta) -> None:
        self.time += passed
        self.seconds += passed.total_seconds()


def settle(*replicas: Replica) -> None:
    async def looks() -> None:
        for _ in range(8):
            await asyncio.gather(*(each.keeper.reconcile() for each in replicas))

    asyncio.run(looks())


def served(replica: Replica, memory: Memory) -> bytes:
    """What is served to somebody who believes what is announced."""
    found = handshake(replica.serving.context, memory.bundle, HOST).getpeercert(binary_form=True)
    assert found is not None
    return found


def test_replicas_that_start_at_once_agree_and_are_believed() -> None:
    memory = Memory()
    replicas = [Replica(memory) for _ in range(3)]
    settle(*replicas)
    assert len({served(each, memory) for each in replicas}) == 1
    assert memory.bundle.count("BEGIN CERTIFICATE") == 1
    assert all(each.keeper.is_announced for each in replicas)


def test_api_servers_are_told_a_path_that_replicas_know_and_nobody_guesses() -> None:
    memory, other = Memory(), Memory()
    replicas = [Replica(memory) for _ in range(2)]
    settle(*replicas)
    settle(Replica(other))
    assert all(each.keeper.paths.takes(memory.path) for each in replicas)
    assert re.fullmatch("/pods/[0-9a-f]{32}", memory.path)
    for guess in ("/pods", "/pods/", "", other.path):
        assert not any(each.keeper.paths.takes(guess) for each in replicas), guess
    before = memory.path
    configuration = copy.deepcopy(memory.objects["MutatingWebhookConfiguration", "headrace-webhook"])
    del configuration["webhooks"][0]["clientConfig"]["service"]["path"]
    memory.put(configuration)
    settle(*replicas)
    assert memory.path == before, "it is announced again where somebody took it away"


def test_an_empty_secret_of_the_chart_is_filled_and_keeps_its_labels() -> None:
    memory = Memory()
    replica = Replica(memory)
    settle(replica)
    assert served(replica, memory)
    assert memory.objects["Secret", SECRET]["metadata"]["labels"] == {"a": "b"}


def test_a_secret_that_somebody_deleted_is_awaited_in_words_and_serving_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = Memory()
    replica, late = Replica(memory), Replica(memory)
    settle(replica)
    before = served(replica, memory)
    secret = memory.objects.pop(("Secret", SECRET))
    settle(replica, late)
    assert f"headrace-system/{SECRET} is not there" in caplog.text and "helm upgrade" in caplog.text
    assert served(replica, memory) == before
    memory.put({key: value for key, value in secret.items() if key != "data"})
    settle(replica, late)
    assert served(replica, memory) == served(late, memory)


def test_when_nothing_is_to_be_done_nothing_is_written() -> None:
    memory = Memory()
    replica = Replica(memory)
    settle(replica)
    before = memory.writes
    replica.pass_time(timedelta(minutes=10))
    settle(replica)
    assert memory.writes == before


def test_through_a_rotation_every_replica_is_believed_at_every_moment() -> None:
    memory = Memory()
    ago = timedelta(days=60)
    replicas = [Replica(memory, behind=ago), Replica(memory, behind=ago + timedelta(hours=5))]
    settle(*replicas)
    (first,) = {served(each, memory) for each in replicas}
    for each in replicas:
        each.pass_time(ago + timedelta(hours=6))
    seen, bundles, paths = [], [], [memory.path]
    # One looks twice as often as the other.
    for turn in range(60):
        settle(*replicas[: 1 + turn % 2])
        bundles.append(memory.bundle.count("BEGIN CERTIFICATE"))
        paths.append(memory.path)
        # API servers ask by what they heard last, or by what they hear now.
        assert all(each.keeper.paths.takes(path) for each in replicas for path in paths[-2:])
        seen.append([served(each, memory) for each in replicas])
        for each in replicas:
            each.pass_time(timedelta(seconds=10))
    assert seen[0] == [first, first], "the new authority is announced before it is served by"
    (last,) = set(seen[-1])
    assert last != first
    assert bundles[0] == 2
    assert len(set(paths)) == 2
    assert bundles[-1] == 1


def test_a_bundle_that_somebody_took_away_is_announced_again() -> None:
    memory = Memory()
    replica = Replica(memory)
    settle(replica)
    configuration = copy.deepcopy(memory.objects["MutatingWebhookConfiguration", "headrace-webhook"])
    del configuration["webhooks"][0]["clientConfig"]["caBundle"]
    memory.put(configuration)
    settle(replica)
    assert served(replica, memory)


OF_DECLARED = {
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "headrace-webhook"},
    "webhooks": [{"name": "declared.headrace.io", "clientConfig": {"service": {**SERVICE, "path": None}}}],
}


def test_declared_objects_are_asked_about_at_the_same_path_and_by_the_same_authority() -> None:
    memory = Memory()
    memory.put(OF_DECLARED)
    settle(Replica(memory))
    (pods,), (declared,) = (
        memory.objects[kind, "headrace-webhook"]["webhooks"]
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    )
    assert declared["clientConfig"] == pods["clientConfig"]
    assert memory.path != SERVICE["path"]


def test_what_it_writes_is_nobodys_own_so_that_helm_can_go_back_to_a_chart_that_names_the_path() -> None:
    """As an API server notes it: whoever writes holds what he wrote, and Helm meets a conflict there."""

    class Noting(Memory):
        async def replace(self, content: dict[str, Any]) -> dict[str, Any]:
            before = self.objects[content["kind"], content["metadata"]["name"]]
            hold = {"manager": "Python", "operation": "Update"}
            if before.get("webhooks") != content.get("webhooks"):
                entries = [each for each in content["metadata"].get("managedFields", []) if each != hold]
                content = {**content, "metadata": {**content["metadata"], "managedFields": [*entries, hold]}}
            return await super().replace(content)

    helm = {"manager": "helm", "operation": "Apply"}
    person = {"manager": "kubectl-edit", "operation": "Update"}
    memory = Noting()
    for each in (memory.objects["MutatingWebhookConfiguration", "headrace-webhook"], OF_DECLARED):
        memory.put({**each, "metadata": {**each["metadata"], "managedFields": [helm, person]}})
    settle(Replica(memory))
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert memory.objects[kind, "headrace-webhook"]["metadata"]["managedFields"] == [helm, person]
    writes = memory.writes
    settle(Replica(memory))
    assert memory.writes == writes, "it is done once"


def test_without_the_right_to_the_other_configuration_pods_are_steered_all_the_same() -> None:
    memory = Memory()
    memory.refused = {"ValidatingWebhookConfiguration"}
    replica = Replica(memory)
    settle(replica)
    assert served(replica, memory) and replica.keeper.is_announced
    replica.pass_time(timedelta(days=70))
    settle(replica)
    replica.pass_time(timedelta(hours=1))
    settle(replica)
    assert memory.bundle.count("BEGIN CERTIFICATE") == 2, "it rotates, too"


def test_without_the_right_to_announce_it_serves_all_the_same_and_does_not_rotate() -> None:
    memory = Memory()
    memory.refused = {"MutatingWebhookConfiguration"}
    replica = Replica(memory)
    settle(replica)
    (authority,) = [base64.b64decode(memory.objects["Secret", SECRET]["data"]["ca.crt"]).decode()]
    first = handshake(replica.serving.context, authority, HOST).getpeercert(binary_form=True)
    replica.pass_time(timedelta(days=70))
    settle(replica)
    replica.pass_time(timedelta(hours=1))
    settle(replica)
    assert handshake(replica.serving.context, authority, HOST).getpeercert(binary_form=True) == first
    assert not replica.keeper.is_announced


def test_a_secret_of_nonsense_is_replaced() -> None:
    memory = Memory()
    garbage = {key: base64.b64encode(b"nonsense").decode() for key in ("ca.crt", "tls.crt", "tls.key")}
    memory.put({"kind": "Secret", "metadata": {"name": SECRET}, "data": garbage})
    replica = Replica(memory)
    settle(replica)
    assert served(replica, memory)


def test_when_the_current_pair_ended_while_all_were_away_the_next_one_is_served() -> None:
    memory = Memory()
    now = datetime.now(UTC)
    ended = make_pair(PLACE.names, now - timedelta(days=91), timedelta(days=90))
    following = make_pair(PLACE.names, now - timedelta(days=20), timedelta(days=90))
    memory.put({"kind": "Secret", "metadata": {"name": SECRET}, "data": data_of(Kept(ended, following))})
    replica = Replica(memory)
    settle(replica)
    assert ssl.PEM_cert_to_DER_cert(following.certificate) == served(replica, memory)


def test_a_refusal_is_met_with_patience() -> None:
    memory = Memory()
    memory.refused = {"Secret"}
    replica = Replica(memory)
    assert asyncio.run(replica.keeper.reconcile()) == 1.0
    assert not replica.keeper.is_announced


def test_only_webhooks_of_our_service_are_told() -> None:
    foreign = {"name": "b", "clientConfig": {"service": {"name": "other", "namespace": "headrace-system"}}}
    by_url = {"name": "c", "clientConfig": {"url": "https://host/"}}
    own = {"name": "a", "clientConfig": {"service": SERVICE, "caBundle": "b2xk"}}
    configuration = {"metadata": {"resourceVersion": "1"}, "webhooks": [own, foreign, by_url]}
    wanted = announced(configuration, PLACE, "new", "/a")
    assert wanted is not None
    assert wanted["webhooks"][0]["clientConfig"] == {
        "service": SERVICE | {"path": "/a"},
        "caBundle": "bmV3",
    }
    assert wanted["webhooks"][1:] == [foreign, by_url]
    assert wanted["metadata"] == {"resourceVersion": "1"}, "so that nobody's change in between is lost"
    assert announced(wanted, PLACE, "new", "/a") is None
