"""An object that makes no sense: what is refused is not kept, and one that is kept hides no other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.api import printing
from headrace.api.manifests import read_objects
from headrace.api.writing import content_of
from headrace.control.http_call import Call
from headrace.local.context import BackendContext
from headrace.local.jobs.job_store import JobStore
from headrace.local.layout import BackendLayout
from headrace.local.protocol.messages import Declaration, NodesWish, Outcome, Outcomes
from headrace.local.reconcile.dataset_reconciler import DatasetReconciler
from headrace.local.server.endpoints import Endpoints
from headrace.local.server.watchers import Watchers
from headrace.local.store import admission
from headrace.local.store.database import Database
from headrace.local.store.object_store import Selection, Store
from headrace.local.store.records import Reference
from headrace.settings.environment import Environment

HEAD = "apiVersion: data.fluid.io/v1alpha1"
DATASET = f"""
{HEAD}
kind: Dataset
metadata: {{name: pictures}}
spec: {{mounts: [{{mountPoint: "local:///FOLDER", name: a}}]}}
"""
LOAD = f"""
{HEAD}
kind: DataLoad
metadata: {{name: NAME}}
spec: {{dataset: {{name: pictures, namespace: NAMESPACE}}}}
"""
PROCESS = f"""
{HEAD}
kind: DataProcess
metadata: {{name: elsewhere}}
spec:
  dataset: {{name: pictures, namespace: other, mountPath: /data}}
  processor: {{script: {{image: "a", command: [bash], source: "true"}}}}
"""
AFTER_ITSELF = f"""
{HEAD}
kind: DataLoad
metadata: {{name: circle}}
spec:
  dataset: {{name: pictures}}
  runAfter: {{kind: DataLoad, name: circle, namespace: default}}
"""
ELSEWHERE = Reference("DataLoad", "default", "elsewhere")


@pytest.fixture
def context(tmp_path: Path) -> Iterator[BackendContext]:
    layout = BackendLayout(tmp_path / "local")
    layout.make()
    context = BackendContext(Database(layout.database), layout, Environment.current())
    context.nodes.make(NodesWish(count=1, plain=True))
    yield context
    context.database.close()


def load(name: str, namespace: str) -> str:
    return LOAD.replace("NAMESPACE", namespace).replace("NAME", name)


def declare(context: BackendContext, text: str, verb: str = "apply") -> tuple[Outcome, ...]:
    """As the command does it."""

    async def asked() -> Outcomes:
        endpoints = Endpoints(context, Watchers(), "1")
        documents = tuple(content_of(thing) for thing in read_objects(text, "test"))
        wish = Declaration(verb=verb, objects=documents)  # type: ignore[arg-type]
        answer = await endpoints.declare(Call({}, wish.model_dump_json().encode()))
        assert isinstance(answer, Outcomes)
        return answer.outcomes

    return asyncio.run(asked())


def put_odd(store: Store, thing: str, **content: Any) -> Reference:
    """Keeps what an earlier release would have taken."""
    (read,) = read_objects(thing, "test")
    wish = admission.wish_of(read, "default")
    with store.changing() as transaction:
        transaction.create(wish.reference, {**wish.content, **content})
    return wish.reference


@pytest.mark.parametrize("verb", ["apply", "create"])
def test_of_three_objects_the_one_in_another_namespace_is_refused_and_not_kept(context, verb: str) -> None:
    text = "---".join([load("first", "default"), load("elsewhere", "other"), load("last", "default")])
    outcomes = declare(context, text, verb)
    assert [(each.object.name, each.deed) for each in outcomes] == [
        ("first", "created"),
        ("elsewhere", ""),
        ("last", "created"),
    ]
    fault = outcomes[1].fault
    assert fault is not None and fault.kind == "Config"
    assert "spec.dataset.namespace: 'other' is not this object's namespace (default)" in fault.message
    kept, _ = context.store.select(Selection(("DataLoad",)))
    assert [record.reference.name for record in kept] == ["first", "last"]


@pytest.mark.parametrize("text", [PROCESS, AFTER_ITSELF])
def test_what_only_its_own_namespace_shows_to_be_wrong_is_not_kept(context, text: str) -> None:
    (outcome,) = declare(context, text)
    assert outcome.fault is not None
    assert context.store.select(Selection(("DataProcess", "DataLoad")))[0] == []


def test_a_change_that_would_lead_into_another_namespace_is_refused(context) -> None:
    declare(context, load("elsewhere", "default"))
    (outcome,) = declare(context, load("elsewhere", "other"))
    assert outcome.fault is not None
    assert context.store.need(ELSEWHERE).content["spec"]["dataset"]["namespace"] == "default"


def test_a_failed_attempt_undoes_its_own_changes_alone(store) -> None:
    told: list[tuple[Reference, ...]] = []
    store.on_change(told.append)
    kept, undone = Reference("ConfigMap", "default", "kept"), Reference("ConfigMap", "default", "undone")
    with store.changing() as transaction:
        transaction.create(kept, {})
        with pytest.raises(RuntimeError), transaction.attempt():
            transaction.create(undone, {})
            raise RuntimeError
        last = transaction.replace(kept, {"data": {"a": "b"}})
    assert told == [(kept,)]
    assert (store.get(undone), store.need(kept)) == (None, last)


def test_a_change_is_made_although_somebody_cannot_be_told_of_it(store) -> None:
    told: list[tuple[Reference, ...]] = []

    def broken(_: tuple[Reference, ...]) -> None:
        raise RuntimeError

    store.on_change(broken)
    store.on_change(told.append)
    reference = Reference("ConfigMap", "default", "kept")
    with store.changing() as transaction:
        transaction.create(reference, {})
    assert told == [(reference,)]


def test_an_odd_operation_is_told_of_and_the_others_go_on(context) -> None:
    declare(context, load("fine", "default"))
    odd = put_odd(
        context.store, load("elsewhere", "default"), spec={"dataset": {"name": "p", "namespace": "q"}}
    )
    reconcile(context, "pictures", "elsewhere")
    fine = context.store.need(replace(odd, name="fine")).status
    assert fine is not None and fine["conditions"][0]["reason"] == "DatasetNotReady"
    status = context.store.need(odd).status
    assert status is not None and status["phase"] == "Failed"
    (condition,) = status["conditions"]
    assert (condition["type"], condition["reason"]) == ("Failed", "Refused")
    assert "spec.dataset.namespace: 'q' is not this object's namespace" in condition["message"]
    before = context.store.need(odd)
    reconcile(context, "elsewhere")
    assert context.store.need(odd) == before
    with context.store.changing() as transaction:
        transaction.delete(odd)
    assert context.store.get(odd) is None


def test_who_runs_after_an_odd_operation_is_told_so(context) -> None:
    put_odd(context.store, load("elsewhere", "default"), spec={"dataset": "a word"})
    after = load("after", "default").replace(
        "spec: {", "spec: {runAfter: {kind: DataLoad, name: elsewhere}, "
    )
    declare(context, after)
    reconcile(context, "pictures")
    status = context.store.need(replace(ELSEWHERE, name="after")).status
    assert status is not None
    (condition,) = status["conditions"]
    assert (condition["type"], condition["reason"]) == ("Waiting", "PredecessorRefused")
    assert "elsewhere" in condition["message"] and "spec.dataset" in condition["message"]


def test_an_odd_dataset_is_told_of_and_can_be_deleted(context, tmp_path: Path) -> None:
    declare(context, DATASET.replace("/FOLDER", str(tmp_path)).replace("pictures", "fine"))
    odd = put_odd(context.store, DATASET, spec={"mounts": [{"mountPoint": "nowhere"}]})
    reconcile(context, "pictures", "fine")
    status = context.store.need(odd).status
    assert status is not None and (status["phase"], status["conditions"][0]["reason"]) == (
        "Failed",
        "Refused",
    )
    assert context.store.need(replace(odd, name="fine")).status is not None
    with context.store.changing() as transaction:
        transaction.set_finalizers(transaction.need(odd), ("fluid-dataset-controller-finalizer",))
        transaction.delete(odd)
    reconcile(context, "pictures")
    assert context.store.get(odd) is None


def test_a_job_that_another_release_kept_keeps_no_other_from_being_read(context) -> None:
    context.database.note("training:odd", json.dumps({"uid": "odd", "spec": {"of": "another release"}}))
    folder = context.layout.folder / "jobs" / "odd"
    job_store = JobStore(context.database, context.layout)
    assert (job_store.all(), job_store.uids) == ([], {"odd"})
    assert folder not in job_store.strays()


def test_an_odd_object_is_printed_as_far_as_it_goes() -> None:
    odd = {
        "apiVersion": "data.fluid.io/v1alpha1",
        "kind": "DataLoad",
        "metadata": {"name": "odd", "namespace": "default", "creationTimestamp": "yesterday"},
        "spec": {"dataset": "a word"},
        "status": {"phase": "Stuck"},
    }
    (fine,) = read_objects(load("fine", "default"), "test")
    text = printing.get_text([odd, content_of(fine)], datetime.now(UTC))
    rows = [line.split() for line in text.splitlines()]
    assert rows[1][:2] == ["odd", "Stuck"] and "<invalid>" in rows[1]
    assert rows[2][:2] == ["fine", "pictures"]


def reconcile(context: BackendContext, *names: str) -> None:
    async def look() -> None:
        reconciler = DatasetReconciler(context)
        try:
            for name in names:
                await reconciler.reconcile("default", name)
        finally:
            await reconciler.close()

    asyncio.run(look())
