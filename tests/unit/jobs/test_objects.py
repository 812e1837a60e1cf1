from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_jobs import mpi_spec
from pydantic import SecretStr

from headrace.errors import UnsupportedError
from headrace.jobs.objects import (
    job_object,
    job_objects,
    owned,
    recorded_spec,
    shown,
    start_patch,
    warm_percent,
)
from headrace.jobs.pod_templates import literal
from headrace.jobs.spec import (
    CleanPolicy,
    CodeSync,
    ConfigFile,
    DataVolume,
    HostFolder,
    JobKind,
    JobSpec,
    Resources,
    Role,
    RoleName,
    TensorBoard,
    Toleration,
)

DATA = (DataVolume(claim="imagenet", path="/data"),)


def pod(job: dict[str, Any], role: str = "Worker", key: str = "mpiReplicaSpecs") -> dict[str, Any]:
    return job["spec"][key][role]["template"]["spec"]


def main(spec: dict[str, Any]) -> dict[str, Any]:
    return spec["containers"][0]


def variables(container: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value", "<secret>") for each in container["env"]}


def expanded(text: str) -> str:
    """As the kubelet does it, without any variable that it knows: third_party/forked/golang/expansion."""
    found, number = "", 0
    while number < len(text):
        if text[number] == "$" and number + 1 < len(text):
            if text[number + 1] == "$":
                found, number = found + "$", number + 2
                continue
            if text[number + 1] == "(":
                end = text.find(")", number)
                found += "<expanded>" if end >= 0 else "$("
                number = end + 1 if end >= 0 else number + 2
                continue
        found, number = found + text[number], number + 1
    return found


@given(st.text(alphabet="$(){}ab \n'\"", max_size=30))
def test_kubernetes_hands_on_what_was_typed(text: str) -> None:
    assert expanded(literal(text)) == text


def test_a_job_of_mpi() -> None:
    job = job_object(mpi_spec(data=DATA, environment={"DATA_DIR": "/data/imagenet"}, retries=2))
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    spec = job["spec"]
    assert spec["slotsPerWorker"] == 8
    assert spec["runPolicy"] == {"cleanPodPolicy": "All", "backoffLimit": 2}
    assert spec["launcherCreationPolicy"] == "WaitForWorkersReady"
    launcher, worker = pod(job, "Launcher"), pod(job)
    assert main(launcher)["command"] == ["./launch-example.sh", "4", "8"]
    assert "resources" not in main(launcher)
    assert main(worker)["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    assert {"name": "imagenet", "mountPath": "/data"} in main(worker)["volumeMounts"]
    assert not any(each["name"] == "imagenet" for each in launcher["volumes"])
    assert spec["mpiReplicaSpecs"]["Worker"]["replicas"] == 4
    assert spec["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] == "Never"
    assert spec["mpiReplicaSpecs"]["Worker"]["restartPolicy"] == "OnFailure"


def test_ranks_of_mpi_get_the_variables_of_the_workers_although_ssh_carries_none() -> None:
    job = job_object(mpi_spec(environment={"DATA_DIR": "/data"}))
    launcher = variables(main(pod(job, "Launcher")))
    script = main(pod(job))["command"][2]
    starter = launcher["OMPI_MCA_orte_launch_agent"].split()[1]
    assert f"> {starter}" in script
    assert any(mount["mountPath"] == starter.rpartition("/")[0] for mount in main(pod(job))["volumeMounts"])
    assert variables(main(pod(job)))["DATA_DIR"] == "/data"


def test_the_launcher_sees_data_if_that_is_wished() -> None:
    job = job_object(mpi_spec(data=DATA, mounts_on_launcher=True))
    assert any(each["name"] == "imagenet" for each in pod(job, "Launcher")["volumes"])


def test_a_command_of_one_word_is_a_line_for_the_shell() -> None:
    job = job_object(mpi_spec(command=("mpirun train.py # fast: yes",), shell="bash"))
    assert main(pod(job, "Launcher"))["command"] == ["bash", "-c", "mpirun train.py # fast: yes"]


def test_on_the_network_of_nodes_ssh_has_a_port_of_its_own() -> None:
    job = job_object(mpi_spec(host_network=True))
    assert " -p 20022 " in variables(main(pod(job, "Launcher")))["OMPI_MCA_plm_rsh_agent"]
    assert main(pod(job))["command"][2].rstrip().endswith(" -De -p 20022")
    assert pod(job)["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_what_v1_differs_in() -> None:
    job = job_object(mpi_spec(gang=True), version="v1")
    assert job["apiVersion"] == "kubeflow.org/v1"
    assert "command" not in main(pod(job))
    launcher = main(pod(job, "Launcher"))["command"]
    assert launcher[3:] == ["sh", "./launch-example.sh", "4", "8"]
    assert "for worker in horovod-resnet50-worker-0 " in launcher[2]
    assert "sshAuthMountPath" not in job["spec"]
    assert job["spec"]["runPolicy"]["schedulingPolicy"] == {"minAvailable": 5}


def test_what_v1alpha1_differs_in() -> None:
    job = job_object(mpi_spec(data=DATA, gang=True, mounts_on_launcher=True), version="v1alpha1")
    spec = job["spec"]
    assert (spec["replicas"], spec["cleanPodPolicy"], spec["mountsOnLauncher"]) == (4, "All", True)
    template = spec["template"]
    assert template["spec"]["restartPolicy"] == "Never"
    assert template["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io/min-available"] == "4"
    assert set(spec) <= {
        *("backoffLimit", "cleanPodPolicy", "gpus", "launcherOnMaster", "launcherResources"),
        *("mountsOnLauncher", "replicas", "template"),
    }
    for changed in ({"queue": "q"}, {"suspend": True}, {"wait_warm_percent": 5}, {"running_timeout_s": 5}):
        with pytest.raises(UnsupportedError, match="v1alpha1"):
            job_object(mpi_spec(**changed), version="v1alpha1")


def test_gang_priority_and_queue() -> None:
    job = job_object(mpi_spec(gang=True, priority_class="high", queue="team", scheduler="volcano"))
    policy = job["spec"]["runPolicy"]
    assert policy["schedulingPolicy"] == {"minAvailable": 4, "priorityClass": "high"}
    assert policy["suspend"] is True
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert (pod(job)["priorityClassName"], pod(job)["schedulerName"]) == ("high", "volcano")


def test_a_job_that_waits_for_its_data_is_suspended_and_can_be_let_go() -> None:
    job = job_object(mpi_spec(data=DATA, wait_warm_percent=80))
    assert job["spec"]["runPolicy"]["suspend"] is True
    assert warm_percent(job) == 80
    patch = start_patch(job)
    assert patch["spec"] == {"runPolicy": {"suspend": False}}
    assert patch["metadata"]["annotations"]["headrace.io/wait-warm-percent"] is None
    assert warm_percent(job_object(mpi_spec())) == 0


def test_a_job_that_waits_for_its_data_enters_its_queue_only_then() -> None:
    job = job_object(mpi_spec(data=DATA, wait_warm_percent=80, queue="team"))
    assert "kueue.x-k8s.io/queue-name" not in job["metadata"]["labels"]
    patch = start_patch(job)
    assert patch["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "team"}
    assert "spec" not in patch


def test_pods_have_what_was_asked_for() -> None:
    spec = mpi_spec(
        tolerations=(Toleration(operator="Exists"), Toleration(key="gpu", value="", effect="NoSchedule")),
        selector={"disk": "ssd"},
        image_pull_secrets=("pull",),
        rdma=True,
        host_ipc=True,
        host_pid=True,
        labels={"team": "vision"},
        annotations={"note": "x"},
        host_folders=(HostFolder(host_path="/mnt/jfs/test", path="/data/imagenet"),),
        shared_memory="64Gi",
        roles=(
            Role(name=RoleName.LAUNCHER, replicas=1),
            Role(
                name=RoleName.WORKER,
                replicas=1,
                resources=Resources(cpu="4", cpu_limit="4", memory="8Gi", devices={"amd.com/gpu": 2}),
            ),
        ),
    )
    job = job_object(spec)
    found = pod(job)
    assert found["tolerations"] == [
        {"operator": "Exists"},
        {"key": "gpu", "operator": "Equal", "value": "", "effect": "NoSchedule"},
    ]
    assert found["nodeSelector"] == {"disk": "ssd"}
    assert found["imagePullSecrets"] == [{"name": "pull"}]
    assert (found["hostIPC"], found["hostPID"]) == (True, True)
    assert main(found)["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
    assert main(found)["resources"] == {
        "requests": {"cpu": "4", "memory": "8Gi", "amd.com/gpu": "2", "rdma/hca": "1"},
        "limits": {"cpu": "4", "amd.com/gpu": "2", "rdma/hca": "1"},
    }
    assert {"name": "training-data-0", "hostPath": {"path": "/mnt/jfs/test"}} in found["volumes"]
    assert {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}} in found["volumes"]
    metadata = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]
    assert metadata["annotations"] == {"note": "x"}
    assert (
        metadata["labels"].items()
        >= {"team": "vision", "app": "mpijob", "release": "horovod-resnet50"}.items()
    )


def test_claims_whose_names_are_no_names_of_volumes_or_taken() -> None:
    data = tuple(DataVolume(claim=name, path=f"/{name}") for name in ("a.b", "dshm", "x" * 100, "ok"))
    found = pod(job_object(mpi_spec(data=data)))
    names = [each["name"] for each in found["volumes"] if "persistentVolumeClaim" in each]
    assert names == ["claim-0", "claim-1", "claim-2", "ok"]
    assert len({each["name"] for each in found["volumes"]}) == len(found["volumes"])


def test_parts_of_claims_and_read_only_ones() -> None:
    data = (DataVolume(claim="imagenet", path="/data", sub_path="train", read_only=True),)
    found = pod(job_object(mpi_spec(data=data)))
    assert {"name": "imagenet", "mountPath": "/data", "subPath": "train", "readOnly": True} in main(found)[
        "volumeMounts"
    ]


def test_secrets_are_in_a_secret_and_nowhere_else() -> None:
    spec = mpi_spec(
        environment={"WANDB_API_KEY": "hunter2", "A": "b"},
        config_files=(ConfigFile(path="/etc/a.yaml", content=SecretStr("hunter3")),),
    )
    things = job_objects(spec)
    secret = next(each for each in things if each["kind"] == "Secret")
    assert secret["stringData"] == {"env.WANDB_API_KEY": "hunter2", "file-0": "hunter3"}
    others = json.dumps([each for each in things if each["kind"] != "Secret"])
    assert "hunter" not in others + json.dumps(shown(secret)) + repr(spec.config_files)
    container = main(pod(job_object(spec)))
    reference = next(each for each in container["env"] if each["name"] == "WANDB_API_KEY")
    assert reference["valueFrom"]["secretKeyRef"] == {
        "name": secret["metadata"]["name"],
        "key": "env.WANDB_API_KEY",
    }
    assert {
        "name": "config-files",
        "mountPath": "/etc/a.yaml",
        "subPath": "file-0",
        "readOnly": True,
    } in container["volumeMounts"]


def test_the_request_is_kept_with_the_job() -> None:
    spec = mpi_spec(data=DATA, environment={"A": "b=c,\n'\"# : ü"})
    record = next(each for each in job_objects(spec) if each["kind"] == "ConfigMap")
    assert record["metadata"]["name"] == "horovod-resnet50-mpijob"
    assert recorded_spec(record) == spec
    assert recorded_spec({"data": {"values": "of Arena"}}) is None
    assert recorded_spec({"data": {"spec.json": "{}"}}) is None


def test_what_belongs_to_a_job_goes_with_it() -> None:
    job, record = job_objects(mpi_spec())
    answered = job | {"metadata": job["metadata"] | {"uid": "u"}}
    (owner,) = owned(record, answered)["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("MPIJob", "horovod-resnet50", "u")


def test_code_is_fetched_first() -> None:
    spec = mpi_spec(code=CodeSync(mode="git", source="https://host/a/models.git"), working_dir="/train")
    found = pod(job_object(spec))
    (init,) = found["initContainers"]
    assert (
        variables(init).items()
        >= {"GITSYNC_REPO": "https://host/a/models.git", "GIT_SYNC_DEST": "models"}.items()
    )
    assert {"name": "code-sync", "mountPath": "/train/code"} in main(found)["volumeMounts"]


def test_tensorboard_reads_the_volume_that_holds_the_logs() -> None:
    data = (*DATA, DataVolume(claim="out", path="/out"))
    things = job_objects(mpi_spec(data=data, tensorboard=TensorBoard(log_dir="/out/logs")))
    deployment = next(each for each in things if each["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    assert [each["name"] for each in template["spec"]["volumes"]] == ["out"]
    assert "headrace.io/job" not in template["metadata"]["labels"]
    service = next(each for each in things if each["kind"] == "Service")
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()


def pytorch(**changed: Any) -> JobSpec:
    roles = (
        Role(name=RoleName.MASTER, replicas=1, resources=Resources(gpus=2)),
        Role(name=RoleName.WORKER, replicas=3, resources=Resources(gpus=2)),
    )
    return mpi_spec("torch", kind=JobKind.PYTORCH, roles=roles, clean_policy=CleanPolicy.RUNNING, **changed)


def test_a_job_of_pytorch() -> None:
    job = job_object(
        pytorch(processes_per_node="2", ttl_after_finished_s=60, running_timeout_s=5, gang=True, data=DATA)
    )
    assert job["kind"] == "PyTorchJob"
    assert job["spec"]["nprocPerNode"] == "2"
    assert job["spec"]["runPolicy"] == {
        "cleanPodPolicy": "Running",
        "backoffLimit": 0,
        "activeDeadlineSeconds": 5,
        "ttlSecondsAfterFinished": 60,
        "schedulingPolicy": {"minAvailable": 4},
    }
    replicas = job["spec"]["pytorchReplicaSpecs"]
    assert (replicas["Master"]["replicas"], replicas["Worker"]["replicas"]) == (1, 3)
    container = main(pod(job, "Master", "pytorchReplicaSpecs"))
    assert container["name"] == "pytorch"
    assert container["ports"] == [{"name": "pytorchjob-port", "containerPort": 23456}]
    assert {"name": "imagenet", "mountPath": "/data"} in container["volumeMounts"]


def test_a_job_of_pytorch_with_one_worker_is_its_master() -> None:
    job = job_object(pytorch().model_copy(update={"roles": pytorch().roles[:1]}))
    assert set(job["spec"]["pytorchReplicaSpecs"]) == {"Master"}


def test_a_job_of_tensorflow() -> None:
    roles = (
        Role(name=RoleName.CHIEF, replicas=1),
        Role(name=RoleName.WORKER, replicas=2, affinity_policy="spread", affinity_constraint="required"),
        Role(
            name=RoleName.PS,
            replicas=1,
            image="ps:1",
            port=2300,
            affinity_policy="binpack",
            selector={"a": "b"},
        ),
        Role(name=RoleName.EVALUATOR, replicas=0),
    )
    job = job_object(
        mpi_spec("tf", kind=JobKind.TF, roles=roles, success_policy="AllWorkers", selector={"c": "d"})
    )
    assert job["spec"]["successPolicy"] == "AllWorkers"
    assert set(job["spec"]["tfReplicaSpecs"]) == {"Chief", "Worker", "PS"}
    server, worker = pod(job, "PS", "tfReplicaSpecs"), pod(job, "Worker", "tfReplicaSpecs")
    assert (main(server)["image"], main(server)["name"]) == ("ps:1", "tensorflow")
    assert main(server)["ports"] == [{"name": "tfjob-port", "containerPort": 2300}]
    assert (server["nodeSelector"], worker["nodeSelector"]) == ({"a": "b"}, {"c": "d"})
    (term,) = worker["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == {"headrace.io/job": "tf", "headrace.io/job-role": "worker"}
    assert "preferredDuringSchedulingIgnoredDuringExecution" in server["affinity"]["podAffinity"]
