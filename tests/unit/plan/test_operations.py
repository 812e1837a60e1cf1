"""Operations begin when they may, tell how far they are, and are complete only when everything is there."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planned import START, World, leaving, objects

from headrace.api.operations import OperationPhase, OperationStatus
from headrace.api.schedules import parse_schedule
from headrace.plan.condition_times import condition_of
from headrace.plan.cron import last_due, next_due
from headrace.plan.job_specs import BackupJob, CopyJob, LoadJob, LoadPart, OperationContext, ProcessJob
from headrace.plan.observed import ClaimFacts, ClaimState
from headrace.plan.operation_inputs import JobFacts, JobState, OperationInputs
from headrace.plan.operations import OperationPlan, plan_operation

HEAD = """apiVersion: data.fluid.io/v1alpha1
kind: {kind}
metadata: {{name: job, namespace: default, generation: 1, creationTimestamp: '2026-01-31T09:30:00Z'}}
spec:
"""
LOAD = HEAD.format(kind="DataLoad") + "  dataset: {name: imagenet, namespace: default}\n"
MIGRATE = HEAD.format(kind="DataMigrate")
PROCESS = HEAD.format(kind="DataProcess") + (
    "  dataset: {name: imagenet, mountPath: /data}\n  processor: {script: {source: 'ls /data', image: busybox}}\n"
)
BACKUP = HEAD.format(kind="DataBackup") + "  dataset: imagenet\n  backupPath: local:///backups\n"
COMPLETE = OperationStatus(phase=OperationPhase.COMPLETE)


class Bench:
    """An operation on the seeds' dataset, and the work for it."""

    def __init__(self, text: str, *, ready: bool = True) -> None:
        world = World.of()
        if ready:
            world.settle()
        self.operation: Any = objects(text)[0]
        self.context = OperationContext(
            {"default/imagenet": world.dataset}, {"default/imagenet": world.runtime}, world.seen
        )
        self.predecessor: Any = None
        self.job: JobFacts | None = None
        self.now = START
        self.plans: list[OperationPlan] = []

    def reconcile(self, seconds: float = 1.0) -> OperationPlan:
        """A look: status is written, what is ordered begins, and time passes."""
        inputs = OperationInputs(self.operation, self.context, self.predecessor, self.job)
        made = plan_operation(inputs, self.now)
        self.plans.append(made)
        self.operation = self.operation.model_copy(update={"status": made.status})
        if made.start is not None:
            self.job = JobFacts(made.run, JobState.RUNNING, self.now, total_bytes=100 << 20, total_files=10)
        self.now += timedelta(seconds=seconds)
        return made

    def work(self, **facts: Any) -> None:
        """The work for it goes on."""
        assert self.job is not None
        self.job = dataclasses.replace(self.job, **facts)

    def finish(self) -> None:
        """The work ends well."""
        self.work(state=JobState.COMPLETE, ended_at=self.now, done_bytes=100 << 20, done_files=10)

    def has_come_after(self, phase: OperationPhase) -> None:
        """What it runs after stands there."""
        self.predecessor = objects(LOAD.replace("name: job", "name: first"))[0].model_copy(
            update={"status": OperationStatus(phase=phase)}
        )


def reason_of(made: OperationPlan, kind: str) -> str | None:
    """The reason of a condition that is true."""
    condition = condition_of(made.status.conditions, kind)
    return condition.reason if condition and condition.status == "True" else None


def test_load_goes_from_pending_to_complete_and_says_how_far_it_is() -> None:
    bench = Bench(
        LOAD
        + "  target: [{path: /imagenet/train, replicas: 2}, {path: /imagenet/val}]\n  loadMetadata: true\n"
    )
    first = bench.reconcile()
    assert first.start == LoadJob(
        "default/imagenet",
        (LoadPart(("imagenet/val",), 1), LoadPart(("imagenet/train",), 2)),
        refresh=True,
        pin=False,
    )
    assert first.status.phase is OperationPhase.PENDING
    bench.work(done_bytes=25 << 20, done_files=3)
    running = bench.reconcile(seconds=191)
    assert running.status.phase is OperationPhase.EXECUTING
    assert running.status.duration == "Unfinished"
    assert running.status.infos == {"Progress": "25.0%", "Bytes": "25.00MiB/100.00MiB", "Files": "3/10"}
    bench.finish()
    done = bench.reconcile()
    assert (done.status.phase, done.status.duration) == (OperationPhase.COMPLETE, "3m12s")
    assert reason_of(done, "Complete") == "DataLoadComplete"
    assert [event.reason for plan in bench.plans for event in plan.events] == [
        "DataLoadStarted",
        "DataLoadComplete",
    ]


def test_whole_dataset_is_loaded_when_no_target_is_given() -> None:
    made = Bench(LOAD).reconcile()
    assert made.start == LoadJob("default/imagenet", (LoadPart((), 1),), refresh=False, pin=False)


def test_nothing_begins_on_a_dataset_that_is_being_deleted_and_what_has_begun_goes_on() -> None:
    bench, key = Bench(LOAD), "default/imagenet"
    present = bench.context
    gone = dataclasses.replace(present, datasets={key: leaving(present.datasets[key])})
    bench.context = gone
    made = bench.reconcile()
    assert (made.status.phase, made.start) == (OperationPhase.PENDING, None)
    assert reason_of(made, "Waiting") == "DatasetNotReady"
    assert f"dataset {key} is being deleted" in str(made.status.conditions)
    bench.context = present
    assert bench.reconcile().start is not None
    bench.context = gone
    assert bench.reconcile().status.phase is OperationPhase.EXECUTING


@pytest.mark.parametrize(
    ("lacking", "words"),
    [
        ({"done_bytes": 57 << 20, "did_not_fit_bytes": 43 << 20}, "43.00MiB did not fit"),
        ({"faults": 2}, "2 files failed"),
        ({"done_files": 9}, "of 100.00MiB"),
    ],
)
def test_load_that_ended_with_something_lacking_failed(lacking: dict[str, int], words: str) -> None:
    bench = Bench(LOAD)
    bench.reconcile()
    bench.finish()
    bench.work(**lacking)
    made = bench.reconcile()
    assert made.status.phase is OperationPhase.FAILED
    failed = condition_of(made.status.conditions, "Failed")
    assert failed is not None
    assert failed.reason == "LoadIncomplete"
    assert words in (failed.message or "")


def test_what_is_complete_stays_so_and_is_not_ordered_again() -> None:
    bench = Bench(LOAD)
    bench.reconcile()
    bench.finish()
    done = bench.reconcile()
    bench.job = None
    bench.now += timedelta(days=1)
    again = bench.reconcile()
    assert again.start is None
    assert again.status == done.status
    assert not again.events


def test_work_that_was_lost_is_ordered_again_under_its_own_name() -> None:
    bench = Bench(LOAD)
    first = bench.reconcile()
    bench.reconcile()
    bench.job = None
    again = bench.reconcile()
    assert (again.start, again.run) == (first.start, first.run)
    assert again.status.phase is OperationPhase.EXECUTING


def test_it_waits_for_its_dataset_and_then_fails() -> None:
    bench = Bench(LOAD, ready=False)
    made = bench.reconcile()
    assert made.status.phase is OperationPhase.PENDING
    assert reason_of(made, "Waiting") == "DatasetNotReady"
    bench.now += timedelta(seconds=599)
    assert bench.reconcile().status.phase is OperationPhase.FAILED


@pytest.mark.parametrize(
    ("phase", "expected", "reason"),
    [
        (None, OperationPhase.PENDING, "PredecessorMissing"),
        (OperationPhase.EXECUTING, OperationPhase.PENDING, "PredecessorRunning"),
        (OperationPhase.FAILED, OperationPhase.FAILED, "PredecessorFailed"),
    ],
)
def test_chain_waits_or_fails_with_what_it_follows(phase: Any, expected: OperationPhase, reason: str) -> None:
    bench = Bench(LOAD + "  runAfter: {kind: DataLoad, name: first}\n")
    if phase is not None:
        bench.has_come_after(phase)
    made = bench.reconcile()
    assert made.start is None
    assert made.status.phase is expected
    assert reason in {reason_of(made, "Waiting"), reason_of(made, "Failed")}


def test_an_operation_that_makes_no_sense_is_not_said_to_be_missing() -> None:
    bench = Bench(LOAD + "  runAfter: {kind: DataLoad, name: first}\n")
    inputs = OperationInputs(bench.operation, bench.context, predecessor_fault="spec.dataset: a word")
    made = plan_operation(inputs, bench.now)
    (waiting,) = [each for each in made.status.conditions if each.type == "Waiting"]
    assert (made.start, waiting.reason) == (None, "PredecessorRefused")
    assert "DataLoad default/first: spec.dataset: a word" in (waiting.message or "")
    assert made.status.waiting_for is not None and made.status.waiting_for.operation_complete is True


def test_chain_goes_on_when_the_first_is_complete() -> None:
    bench = Bench(LOAD + "  runAfter: {kind: DataLoad, name: first}\n")
    bench.has_come_after(OperationPhase.EXECUTING)
    waiting = bench.reconcile().status.waiting_for
    assert waiting is not None
    assert waiting.operation_complete is True
    bench.now += timedelta(days=3)
    bench.has_come_after(OperationPhase.COMPLETE)
    made = bench.reconcile()
    assert made.start is not None
    assert made.status.waiting_for is not None
    assert made.status.waiting_for.operation_complete is False


def test_scheduled_load_runs_each_time_it_is_due_and_skips_what_it_missed() -> None:
    bench = Bench(LOAD + "  policy: Cron\n  schedule: '0 * * * *'\n")
    made = bench.reconcile()
    assert made.start is None
    assert made.status.phase is OperationPhase.PENDING
    assert made.requeue_after_s == 1800.0
    bench.now = datetime(2026, 1, 31, 12, 20, tzinfo=UTC)
    made = bench.reconcile()
    assert made.start is not None
    assert made.status.last_schedule_time == datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
    bench.finish()
    made = bench.reconcile()
    assert made.status.phase is OperationPhase.COMPLETE
    assert made.status.last_successful_time == datetime(2026, 1, 31, 12, 20, 1, tzinfo=UTC)
    assert bench.reconcile().start is None
    bench.now = datetime(2026, 1, 31, 13, 0, 5, tzinfo=UTC)
    made = bench.reconcile()
    assert made.start is not None
    assert made.status.duration == "-"
    assert reason_of(made, "Complete") is None


def test_run_that_takes_longer_than_its_period_is_not_started_twice() -> None:
    bench = Bench(LOAD + "  policy: Cron\n  schedule: '* * * * *'\n")
    bench.now += timedelta(minutes=1)
    assert bench.reconcile(seconds=600).start is not None
    assert bench.reconcile().start is None
    bench.finish()
    assert bench.reconcile().status.phase is OperationPhase.COMPLETE
    assert bench.reconcile().start is not None


def test_run_that_failed_is_followed_by_the_next_one() -> None:
    bench = Bench(LOAD + "  policy: Cron\n  schedule: '0 * * * *'\n")
    bench.now = datetime(2026, 1, 31, 10, 0, tzinfo=UTC)
    bench.reconcile()
    bench.work(state=JobState.FAILED, message="no route to host")
    assert bench.reconcile().status.phase is OperationPhase.FAILED
    bench.now = datetime(2026, 1, 31, 11, 0, tzinfo=UTC)
    made = bench.reconcile()
    assert made.start is not None
    assert reason_of(made, "Failed") is None


def test_schedule_without_any_day_and_policy_without_events_fail_at_once() -> None:
    never = Bench(LOAD + "  policy: Cron\n  schedule: '0 0 31 2 *'\n").reconcile()
    on_event = Bench(LOAD + "  policy: OnEvent\n").reconcile()
    assert reason_of(never, "Failed") == "ScheduleNeverDue"
    assert reason_of(on_event, "Failed") == "PolicyNotSupported"


def test_finished_operation_is_deleted_after_its_time() -> None:
    bench = Bench(LOAD + "  ttlSecondsAfterFinished: 60\n")
    bench.reconcile()
    bench.finish()
    made = bench.reconcile(seconds=59)
    assert not made.delete
    assert made.requeue_after_s <= 60
    assert not bench.reconcile(seconds=1).delete
    assert bench.reconcile().delete


def test_deleting_cancels_what_runs_and_then_lets_go() -> None:
    bench = Bench(LOAD)
    bench.reconcile()
    bench.operation = leaving(bench.operation)
    made = bench.reconcile()
    assert made.cancel
    assert made.finalizers
    bench.work(state=JobState.FAILED)
    made = bench.reconcile()
    assert not made.cancel
    assert not made.finalizers


def test_migration_out_of_a_dataset_reads_its_cluster_and_writes_an_origin() -> None:
    made = Bench(
        MIGRATE + "  from: {dataset: {name: imagenet, namespace: default, path: /imagenet/train}}\n"
        "  to: {externalStorage: {uri: 's3://backup/train', encryptOptions: [{name: aws.accessKeyId, valueFrom: "
        "{secretKeyRef: {name: mysecret, key: fs.oss.accessKeyId}}}, {name: aws.secretKey, valueFrom: "
        "{secretKeyRef: {name: mysecret, key: fs.oss.accessKeySecret}}}]}}\n"
    ).reconcile()
    assert isinstance(made.start, CopyJob)
    assert (made.start.source.cluster, made.start.source.path) == ("default/imagenet", "imagenet/train")
    target = made.start.target
    assert target.origin is not None
    assert target.origin.origin == "s3://backup/train"
    assert len(target.secrets[0].values) == 2


def test_migration_into_a_dataset_writes_to_the_origin_behind_its_path() -> None:
    made = Bench(
        MIGRATE + "  from: {externalStorage: {uri: 'local:///incoming'}}\n"
        "  to: {dataset: {name: imagenet, namespace: default, path: /imagenet/new}}\n"
    ).reconcile()
    assert isinstance(made.start, CopyJob)
    assert made.start.target.origin is not None
    assert made.start.target.origin.origin == "oss://bucket/imagenet/new"
    assert made.start.target.secrets


@pytest.mark.parametrize("uri", ["https://host/files/", "nfs://host/export", "hdfs://host/folder"])
def test_migration_to_where_nothing_can_be_written_fails(uri: str) -> None:
    made = Bench(
        MIGRATE + "  from: {dataset: {name: imagenet, namespace: default}}\n"
        f"  to: {{externalStorage: {{uri: '{uri}'}}}}\n"
    ).reconcile()
    assert reason_of(made, "Failed") == "TargetNotSupported"
    failed = next(each for each in made.status.conditions if each.type == "Failed")
    assert "only read" in (failed.message or "")


def test_a_migration_tells_nothing_of_datasets_of_other_namespaces() -> None:
    told = []
    for name in ("imagenet", "none-such"):
        text = MIGRATE.replace("namespace: default", "namespace: team")
        text += f"  from: {{dataset: {{name: {name}, namespace: default}}}}\n  to: {{externalStorage: {{uri: 's3://b'}}}}\n"
        condition = condition_of(Bench(text).reconcile().status.conditions, "Failed")
        assert condition is not None
        told.append((condition.reason, (condition.message or "").replace(name, "NAME")))
    assert told[0] == told[1]
    assert told[0][0] == "SourceNotSupported"


def test_migration_into_a_dataset_of_another_namespace_is_refused() -> None:
    bench = Bench(
        MIGRATE.replace("namespace: default", "namespace: team")
        + "  from: {externalStorage: {uri: 'local:///in'}}\n"
        "  to: {dataset: {name: imagenet, namespace: default}}\n"
    )
    assert reason_of(bench.reconcile(), "Failed") == "TargetNotSupported"


def test_process_and_backup_are_ordered_with_all_they_need() -> None:
    process = Bench(PROCESS).reconcile().start
    assert isinstance(process, ProcessJob)
    assert (process.cluster, process.mount_path) == ("default/imagenet", "/data")
    bench = Bench(BACKUP)
    backup = bench.reconcile().start
    assert isinstance(backup, BackupJob)
    assert backup.address == "local:///backups"
    bench.finish()
    bench.work(node="node-1")
    made = bench.reconcile()
    assert made.status.infos["BackupLocationPath"] == "local:///backups"
    assert made.status.infos["BackupLocationNodeName"] == "node-1"


def test_backup_into_a_claim_waits_for_its_volume() -> None:
    bench = Bench(BACKUP.replace("local:///backups", "pvc://store/x"))
    assert reason_of(bench.reconcile(), "Waiting") == "ClaimMissing"
    seen = dataclasses.replace(
        bench.context.observed, claims={"store": ClaimFacts(ClaimState.PRESENT, "nfs://server/export")}
    )
    bench.context = dataclasses.replace(bench.context, observed=seen)
    made = bench.reconcile().start
    assert isinstance(made, BackupJob)
    assert made.address == "nfs://server/export/x"


MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))
SCHEDULES = st.sampled_from(
    ["* * * * *", "0 3 * * *", "*/15 9-17 * * mon-fri", "0 0 1 * *", "30 4 29 2 *", "@weekly", "0 12 13 * 5"]
)


@given(schedule=SCHEDULES, moment=MOMENTS)
def test_next_and_last_moment_of_a_schedule_agree(schedule: str, moment: datetime) -> None:
    plan = parse_schedule(schedule)
    following = next_due(plan, moment)
    assert following is not None
    assert following > moment
    assert last_due(plan, moment, following) == following
    assert last_due(plan, moment, following - timedelta(seconds=1)) is None


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("0 3 * * *", "2026-01-31T03:00:00", "2026-02-01T03:00:00"),
        ("0 0 * * 0", "2026-01-31T09:30:00", "2026-02-01T00:00:00"),
        ("30 4 29 2 *", "2026-01-31T09:30:00", "2028-02-29T04:30:00"),
        ("0 12 13 * 5", "2026-01-31T09:30:00", "2026-02-06T12:00:00"),
    ],
)
def test_schedules_mean_what_cron_means(schedule: str, after: str, expected: str) -> None:
    made = next_due(parse_schedule(schedule), datetime.fromisoformat(after + "+00:00"))
    assert made == datetime.fromisoformat(expected + "+00:00")
