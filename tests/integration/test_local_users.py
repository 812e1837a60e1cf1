"""The local backend of an ordinary user: plain processes, real mounts, from `up` to `down`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .harness import HEADRACE
from .machines import NEEDS, OTHER, USER, Machine, shared_machine

pytestmark = NEEDS

DEADLINE_S = 120.0
DATASET = """apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {{name: {name}}}
spec: {{placement: Shared, mounts: [{{mountPoint: "local://{folder}/source", name: a}}]}}
---
apiVersion: data.fluid.io/v1alpha1
kind: AlluxioRuntime
metadata: {{name: {name}}}
spec:
  replicas: 2
  {more}
  tieredstore: {{levels: [{{mediumtype: SSD, path: {folder}/home/cache, quota: 64Mi}}]}}
---
apiVersion: data.fluid.io/v1alpha1
kind: DataLoad
metadata: {{name: {name}}}
spec: {{dataset: {{name: {name}, namespace: default}}}}
"""
RUN_AS = "runAs: {{uid: {uid}, gid: {uid}, user: u, group: g}}"


class Person:
    """A user with a backend of their own."""

    def __init__(self, machine: Machine) -> None:
        self.folder = machine.folder
        self._machine = machine

    def try_to(self, *words: str | Path, user: int = USER) -> tuple[int, str]:
        done = self._machine.run(
            user, "env", f"HEADRACE_STATE_DIR={self.folder}/home/state", HEADRACE, *words
        )
        return done.returncode, done.stdout + done.stderr

    def must(self, *words: str | Path) -> str:
        code, talk = self.try_to(*words)
        assert code == 0, f"headrace {words} ended with {code}:\n{talk}"
        return talk

    def reads(self, path: Path, user: int = USER) -> str:
        return self._machine.run(user, "cat", path).stdout

    def apply(self, name: str, more: str = "") -> None:
        file = self.folder / f"{name}.yaml"
        file.write_text(DATASET.format(name=name, folder=self.folder, more=more))
        self.must("apply", "-f", file)

    def condition(self, name: str) -> str:
        """Why a dataset is not ready, with its sentence."""
        document = json.loads(self.must("get", "dataset", name, "-o", "json"))
        found = document.get("status", {}).get("conditions", [])
        return next((f"{each['reason']}: {each['message']}" for each in found if each["type"] == "Ready"), "")

    def eventually(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not what():
            assert time.monotonic() < deadline, (
                self.try_to("status", "--local")[1] + self.try_to("logs", "-l", "dataset")[1]
            )
            time.sleep(0.3)


@pytest.fixture
def person() -> Iterator[Person]:
    with shared_machine() as machine:
        person = Person(machine)
        try:
            yield person
        finally:
            person.must("down")
            assert not (person.folder / "home" / "state" / "local").exists()


def _health_of_roles(person: Person) -> list[str]:
    roles = json.loads(person.must("status", "--local", "--json"))["roles"]
    return [role["health"] for role in roles]


def test_a_user_without_rights_has_datasets_from_up_to_down(person: Person) -> None:
    said = person.must("up", "--nodes", "2", "--node-taint", "node-2:spot:PreferNoSchedule")
    assert "plain processes" in said
    person.apply("mine", RUN_AS.format(uid=USER))
    person.must("wait", "--for=condition=Ready", "dataset/mine", "--timeout", "100s")
    person.must("wait", "--for=jsonpath={.status.phase}=Complete", "dataload/mine", "--timeout", "100s")
    nodes = person.folder / "home" / "state" / "local" / "nodes"
    files = [nodes / node / "mounts" / "default" / "mine" / "a" / "a.txt" for node in ("node-1", "node-2")]
    for file in files:
        person.eventually(lambda file=file: person.reads(file) == "content" * 1000)
        assert person.reads(file, user=OTHER) == "", "mounts are the user's own"
    person.eventually(lambda: _health_of_roles(person) == ["ready"] * 5)
    assert "mine-worker-1" in person.must("get", "pods")

    person.apply("others", RUN_AS.format(uid=OTHER))
    asks = f"runs processes as user {USER} alone, and runAs asks for {OTHER}"
    person.eventually(lambda: asks in person.condition("others"))
    assert "leave runAs out, or call `headrace up` as that user" in person.condition("others")
    assert asks in person.must("status", "--local")

    for name in ("mine", "others"):
        person.must("delete", "dataset", name)
        person.must("wait", "--for=delete", f"alluxioruntime/{name}", "--timeout", "100s")
    assert not (person.folder / "home" / "cache").exists()
