"""A job is made with all that belongs to it, or nothing is; what speaks against it is told before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from job_cluster import JobCluster
from job_objects import Content, mpijob

from headrace.errors import AmbiguousJobError, ConfigError, MissingJobError, TakenJobError
from headrace.jobs.old_kinds import OLD
from headrace.jobs.spec import DataVolume, JobKind, JobSpec, Resources, Role, RoleName
from headrace.kubeflow import submitting
from headrace.kubeflow.job_reader import Jobs
from headrace.kubeflow.problems import claim_problems, problems_of

SPEC = JobSpec(
    name="resnet",
    namespace="default",
    kind=JobKind.MPI,
    roles=(Role(name=RoleName.LAUNCHER, replicas=1), Role(name=RoleName.WORKER, replicas=2)),
    image="horovod",
    command=("./launch-example.sh", "4", "8"),
    environment={"API_TOKEN": "very secret"},
    data=(DataVolume(claim="imagenet", path="/data"),),
)
NODE = {
    "kind": "Node",
    "metadata": {"name": "node-1", "labels": {}},
    "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/gpu": "8"}},
}


def named(kind: str, name: str, **more: Any) -> Content:
    place = {} if kind in ("Namespace", "PriorityClass", "StorageClass") else {"namespace": "default"}
    return {"kind": kind, "metadata": {"name": name, **place}, **more}


def claim(phase: str = "Bound", storage: str = "fluid") -> Content:
    return named(
        "PersistentVolumeClaim", "imagenet", spec={"storageClassName": storage}, status={"phase": phase}
    )


def ready_cluster(*more: Content) -> JobCluster:
    cluster = JobCluster()
    cluster.put(NODE, claim(), *more)
    cluster.objects["Namespace", "", "default"] = named("Namespace", "default")
    return cluster


def problems(cluster: JobCluster, **changes: Any) -> list[str]:
    return asyncio.run(problems_of(Jobs(cluster), SPEC.model_copy(update=changes)))


def submit(cluster: JobCluster) -> list[str]:
    return asyncio.run(submitting.submit(cluster, SPEC, "v2beta1"))


def test_nothing_speaks_against_a_job_whose_claim_is_bound() -> None:
    cluster = ready_cluster()
    assert problems(cluster) == []
    assert cluster.writes == []


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"namespace": "nowhere"}, "there is no namespace nowhere"),
        ({"priority_class": "high"}, "no PriorityClass high"),
        ({"queue": "team"}, "Kueue is not on this cluster"),
        ({"data": (DataVolume(claim="other", path="/data"),)}, "neither a claim nor a dataset"),
        ({"wait_warm_percent": 50}, "none of the job's volumes is a dataset"),
        (
            {"roles": (Role(name=RoleName.WORKER, replicas=2, resources=Resources(gpus=8)),)},
            "2 workers with 8 GPUs each cannot run here",
        ),
    ],
)
def test_what_speaks_against_a_job(changes: dict[str, Any], complaint: str) -> None:
    (said,) = problems(ready_cluster(), **changes)
    assert complaint in said


def test_a_kind_that_the_cluster_lacks_names_the_operator_to_install() -> None:
    cluster = ready_cluster()
    cluster.served = {"kubeflow.org": {"PyTorchJob": "v1"}}
    (said,) = problems(cluster)
    assert "knows no MPIJob" in said
    assert "install the Kubeflow MPI operator" in said


PYTORCH = {"kind": JobKind.PYTORCH, "roles": (Role(name=RoleName.MASTER, replicas=1),)}
OLD_FIELDS = ("pytorchReplicaSpecs", "cleanPodPolicy", "backoffLimit")


@pytest.mark.parametrize(
    ("fields", "version"),
    [(OLD_FIELDS, OLD), (("pytorchReplicaSpecs", "runPolicy"), "v1"), ((), "v1")],
    ids=["Arena's", "the training operator's", "no schema"],
)
def test_which_of_two_kinds_of_one_version_is_served_tells_its_schema(
    fields: tuple[str, ...], version: str
) -> None:
    cluster = ready_cluster()
    cluster.fields = {"PyTorchJob": fields, "TFJob": ("runPolicy",)}
    assert asyncio.run(Jobs(cluster).written(JobKind.PYTORCH)) == version
    assert asyncio.run(Jobs(cluster).written(JobKind.TF)) == "v1"
    assert asyncio.run(Jobs(cluster).written(JobKind.MPI)) == "v2beta1"
    assert problems(cluster, **PYTORCH) == []


def test_what_arenas_kinds_cannot_say_is_a_problem_that_names_the_operator() -> None:
    cluster = ready_cluster()
    cluster.fields = {"PyTorchJob": OLD_FIELDS}
    (said,) = problems(cluster, **PYTORCH, suspend=True)
    assert "which this cluster serves, know nothing like it; install the training operator" in said


def test_a_queue_must_be_there() -> None:
    cluster = ready_cluster()
    cluster.served["kueue.x-k8s.io"] = {"LocalQueue": "v1beta1"}
    assert "no LocalQueue team" in problems(cluster, queue="team")[0]
    cluster.paths = {"/apis/kueue.x-k8s.io/v1beta1/namespaces/default/localqueues/team"}
    assert problems(cluster, queue="team") == []


def test_what_an_old_version_cannot_say_is_a_problem() -> None:
    cluster = ready_cluster(named("Dataset", "imagenet", status={"phase": "Bound"}))
    cluster.served = {"kubeflow.org": {"MPIJob": "v1alpha1"}}
    assert any("v1alpha1" in each for each in problems(cluster, wait_warm_percent=50))
    assert cluster.spoken == {"MPIJob": "v1alpha1"}


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("MPIJob", "the job resnet is already exist, please delete it first"),
        ("TFJob", "there is a tfjob resnet in default"),
    ],
)
def test_a_name_that_is_taken_is_told(kind: str, told: str) -> None:
    (said,) = problems(ready_cluster(mpijob() | {"kind": kind}))
    assert told in said


def test_an_object_of_somebody_else_that_is_called_so_is_told() -> None:
    (said,) = problems(ready_cluster(named("ConfigMap", "resnet-mpijob")))
    assert "ConfigMap resnet-mpijob" in said


LATE = {"volumeBindingMode": "WaitForFirstConsumer"}
BOUND = {"status": {"phase": "Bound"}}


@pytest.mark.parametrize(
    ("found", "dataset", "storage", "complaint"),
    [
        (claim(), {}, {}, ""),
        (claim(), BOUND, {}, ""),
        (claim(), {"status": {"phase": "Failed"}}, {}, "the dataset is Failed"),
        (claim("Pending"), {}, {}, "the claim is Pending"),
        (claim("Pending"), {}, LATE, ""),
        (claim("Pending"), BOUND, {}, ""),
        (claim("Lost"), BOUND, {}, "the claim is Lost"),
        ({}, {"status": {}}, {}, "the dataset is NotBound and has no claim yet"),
        ({}, {}, {}, "neither a claim nor a dataset"),
        ({"metadata": {"deletionTimestamp": "now"}}, {}, {}, "is being deleted"),
    ],
)
def test_claims(found: Content, dataset: Content, storage: Content, complaint: str) -> None:
    said = claim_problems("imagenet", "default", found, dataset, storage)
    assert [complaint in each for each in said] == ([True] if complaint else [])


def test_what_may_not_be_read_is_no_problem() -> None:
    cluster = ready_cluster()
    cluster.refused = {("list", "Node")}
    assert problems(cluster, roles=(Role(name=RoleName.WORKER, replicas=99),)) == []


def test_everything_belongs_to_the_job() -> None:
    cluster = ready_cluster()
    assert submit(cluster) == [
        "mpijob.kubeflow.org/resnet",
        "configmap/resnet-mpijob",
        "secret/resnet-mpijob",
    ]
    job = cluster.objects["MPIJob", "default", "resnet"]
    for kind in ("ConfigMap", "Secret"):
        (owner,) = cluster.objects[kind, "default", "resnet-mpijob"]["metadata"]["ownerReferences"]
        assert owner["uid"] == job["metadata"]["uid"]
    assert "very secret" not in str(job) + str(cluster.of("ConfigMap"))


@pytest.mark.parametrize("fault", range(5))
def test_a_submission_that_fails_anywhere_leaves_nothing(fault: int) -> None:
    cluster = ready_cluster()
    before = set(cluster.objects)
    cluster.faults = {fault: ConfigError.of("the server says no")}
    with pytest.raises(ConfigError):
        submit(cluster)
    assert set(cluster.objects) == before


@pytest.mark.parametrize("fault", range(5))
def test_what_a_killed_submission_left_is_taken_over(fault: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def undo(*_: Any) -> None:
        """Nobody is there to take anything back."""

    cluster = ready_cluster()
    cluster.faults = {fault: KeyboardInterrupt()}
    with monkeypatch.context() as patched:
        patched.setattr(submitting, "_undo", undo)
        with pytest.raises(KeyboardInterrupt):
            submit(cluster)
    if ("MPIJob", "default", "resnet") not in cluster.objects:
        assert problems(cluster) == []
        assert submit(cluster)[0] == "mpijob.kubeflow.org/resnet"


def test_a_job_of_that_name_is_left_as_it_is() -> None:
    cluster = ready_cluster(mpijob())
    before = dict(cluster.objects)
    with pytest.raises(TakenJobError, match="the job resnet is already exist, please delete it first"):
        submit(cluster)
    assert cluster.objects == before
    assert problems(cluster)[0].startswith("the job resnet is already exist, please delete it first")


def test_a_deleted_job_takes_with_it_what_was_made_for_it_and_nothing_else() -> None:
    cluster = ready_cluster()
    before = set(cluster.objects)
    submit(cluster)
    jobs = Jobs(cluster)

    async def deleted() -> list[str]:
        found = await jobs.view(await jobs.one("default", "resnet", None), events=False)
        assert found.spec is not None
        assert found.spec.command == SPEC.command
        assert found.spec.environment == {"API_TOKEN": ""}
        return await submitting.delete(cluster, found)

    assert asyncio.run(deleted()) == [
        "mpijob.kubeflow.org/resnet",
        "configmap/resnet-mpijob",
        "secret/resnet-mpijob",
    ]
    assert set(cluster.objects) == before


def test_jobs_are_found_by_name_and_kind() -> None:
    cluster = ready_cluster(mpijob(), mpijob() | {"kind": "TFJob"})
    jobs = Jobs(cluster)
    with pytest.raises(AmbiguousJobError, match="mpijob, tfjob"):
        asyncio.run(jobs.one("default", "resnet", None))
    assert asyncio.run(jobs.one("default", "resnet", JobKind.TF))["kind"] == "TFJob"
    with pytest.raises(MissingJobError, match="Not found training job other in namespace default"):
        asyncio.run(jobs.one("default", "other", None))
