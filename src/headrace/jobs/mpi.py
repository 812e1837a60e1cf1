"""MPIJobs of the Kubeflow operators: v2beta1, and by their differences v1 and v1alpha1.

With v2beta1 ranks are started through ssh, which carries no variables. So a worker writes its own down before it
starts sshd, and `mpirun` is told to start its daemon through the file that was written.
"""

from __future__ import annotations

from typing import Any

from headrace.errors import UnsupportedError
from headrace.jobs.naming import job_metadata, pod_metadata
from headrace.jobs.pod_templates import PodParts, command_of, literal, pod_template
from headrace.jobs.pod_volumes import Volumes
from headrace.jobs.policies import is_held, restart_policy, run_policy
from headrace.jobs.spec import JobSpec, Role, RoleName

Content = dict[str, Any]

VERSIONS = ("v2beta1", "v1", "v1alpha1")
"""In the order in which they are preferred."""

_CONTAINER = "mpi"
_FOLDER = "/run/headrace-job"
_STARTER = f"{_FOLDER}/start"
_SSH_PORT_OF_HOST = 20022
_SERVE = r"""
mkdir -p /run/sshd 2> /dev/null
(
    # In here alone: ranks inherit the mask from sshd, and what they write is for others as well.
    umask 077
    {
        echo 'headrace_path=$PATH headrace_libraries=$LD_LIBRARY_PATH'
        export -p
        echo 'PATH=$PATH${headrace_path:+:$headrace_path}'
        echo 'LD_LIBRARY_PATH=$LD_LIBRARY_PATH${headrace_libraries:+:$headrace_libraries}'
        echo 'export PATH LD_LIBRARY_PATH'
        echo 'exec "$@"'
    } > STARTER
)
[ -e /etc/ssh/ssh_host_ed25519_key ] || ssh-keygen -A > /dev/null 2>&1
# By its mode alone everybody may write to the folder of a Secret's volume, where the keys are.
exec /usr/sbin/sshd -oStrictModes=no -oPermitRootLogin=prohibit-password -DePORT
""".lstrip()


_AWAIT = """
# ssh gives up at once on a name that is not known yet, and a launcher has one try.
command -v getent > /dev/null || exit 0
left=600
for host in HOSTS; do
    until getent hosts "$host" > /dev/null; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || exit 0
        sleep 0.5 || sleep 1
    done
done
""".lstrip()


_REACH = """
# The operator makes the launcher beside its workers, and `kubectl exec` gives up at once on one that does not run yet.
left=600
for worker in WORKERS; do
    until /opt/kube/kubectl exec "$worker" -- true > /dev/null 2>&1; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || break 2
        sleep 1
    done
done
exec "$@"
""".lstrip()


def mpi_job(spec: JobSpec, version: str = "v2beta1") -> Content:
    """The object. Raises `UnsupportedError` for what this version of the API cannot say."""
    if version == "v1alpha1":
        return _old_job(spec)
    workers = _role(spec, RoleName.WORKER).replicas
    # The launcher is no member of the gang: it is made once all workers are ready.
    policy = run_policy(spec, processes=workers if version == "v2beta1" else workers + 1, with_ttl=False)
    found: Content = {
        "slotsPerWorker": spec.slots_per_worker,
        "runPolicy": policy,
        "mpiReplicaSpecs": {
            "Launcher": _replicas(spec, RoleName.LAUNCHER, version),
            "Worker": _replicas(spec, RoleName.WORKER, version),
        },
    }
    if version == "v2beta1":
        found |= {
            "mpiImplementation": "OpenMPI",
            "sshAuthMountPath": "/root/.ssh",
            "launcherCreationPolicy": "WaitForWorkersReady",
        }
    return _object(spec, version, found)


def _replicas(spec: JobSpec, name: RoleName, version: str) -> Content:
    role = _role(spec, name)
    is_launcher = name is RoleName.LAUNCHER
    parts = _launcher(spec, version) if is_launcher else _worker(spec, version)
    # A launcher's Job makes a new pod for each try, so that the log of the one before stays.
    policy = "Never" if is_launcher else restart_policy(spec)
    return {
        "replicas": role.replicas,
        "restartPolicy": policy,
        "template": pod_template(spec, role, parts),
    }


def _launcher(spec: JobSpec, version: str) -> PodParts:
    through_ssh = version == "v2beta1"
    return PodParts(
        container=_CONTAINER,
        command=command_of(spec) if through_ssh else _once_reached(spec),
        environment=_launcher_environment(spec) if through_ssh else _as_root(),
        with_data=spec.mounts_on_launcher,
        with_resources=False,
        first=["sh", "-c", literal(_AWAIT.replace("HOSTS", _hosts(spec)))] if through_ssh else None,
    )


def _hosts(spec: JobSpec) -> str:
    """The names by which the operator's list of hosts calls the workers."""
    return " ".join(f"{pod}.{spec.name}.{spec.namespace}.svc" for pod in _worker_pods(spec))


def _worker_pods(spec: JobSpec) -> list[str]:
    return [f"{spec.name}-worker-{each}" for each in range(_role(spec, RoleName.WORKER).replicas)]


def _once_reached(spec: JobSpec) -> list[str]:
    """The command, which begins once all workers run."""
    script = _REACH.replace("WORKERS", " ".join(_worker_pods(spec)))
    return ["sh", "-c", literal(script), "sh", *command_of(spec)]


def _launcher_environment(spec: JobSpec) -> dict[str, str]:
    port = f" -p {_SSH_PORT_OF_HOST}" if spec.host_network else ""
    # Workers are new hosts every time: there is nobody whose key could be known.
    # One whose sshd is not there yet is asked again, once a second.
    quiet = "-o ConnectionAttempts=30 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    return {
        **_as_root(),
        "OMPI_MCA_plm_rsh_agent": f"ssh{port} {quiet}",
        "OMPI_MCA_orte_launch_agent": f"sh {_STARTER} orted",
        "PRTE_MCA_prte_launch_agent": f"sh {_STARTER} prted",
    }


def _as_root() -> dict[str, str]:
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def _worker(spec: JobSpec, version: str) -> PodParts:
    if version != "v2beta1":
        # The operator's own command sleeps; ranks come by `kubectl exec`, which has the container's variables.
        return PodParts(container=_CONTAINER, command=None)
    # The host's own sshd has port 22; an image may have another one in its configuration.
    port = f" -p {_SSH_PORT_OF_HOST}" if spec.host_network else ""
    script = _SERVE.replace("STARTER", _STARTER).replace("PORT", port)
    folder = Volumes(
        ({"name": "headrace-job", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}},),
        ({"name": "headrace-job", "mountPath": _FOLDER},),
    )
    return PodParts(container=_CONTAINER, command=["sh", "-c", literal(script)], volumes=folder)


def _old_job(spec: JobSpec) -> Content:
    """One template for launcher and workers, and few words around it."""
    lacking = {
        "--wait-warm, --queue and --suspend": is_held(spec),
        "--running-timeout": spec.running_timeout_s,
    }
    for flag, wanted in lacking.items():
        if wanted:
            raise UnsupportedError.of(
                f"{flag}: MPIJobs of v1alpha1, which this cluster serves, know nothing like it",
                hint="install an MPI operator that serves v2beta1",
            )
    worker = _role(spec, RoleName.WORKER)
    template = pod_template(spec, worker, PodParts(_CONTAINER, command_of(spec), _as_root()))
    template["spec"]["restartPolicy"] = "Never"
    if spec.gang:
        template["metadata"] = _gang_metadata(spec, worker)
    return _object(
        spec,
        "v1alpha1",
        {
            "cleanPodPolicy": spec.clean_policy.value,
            "backoffLimit": spec.retries,
            "replicas": worker.replicas,
            "launcherResources": {},
            "mountsOnLauncher": spec.mounts_on_launcher,
            "template": template,
        },
    )


def _gang_metadata(spec: JobSpec, worker: Role) -> Content:
    """As Arena says it to the coscheduling plugin, where no operator makes a PodGroup."""
    group = "pod-group.scheduling.sigs.k8s.io"
    metadata = pod_metadata(spec, RoleName.WORKER)
    own = {f"{group}/name": f"mpijob-{spec.name}", f"{group}/min-available": str(worker.replicas)}
    return metadata | {"labels": metadata["labels"] | own}


def _object(spec: JobSpec, version: str, content: Content) -> Content:
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "MPIJob",
        "metadata": job_metadata(spec),
        "spec": content,
    }


def _role(spec: JobSpec, name: RoleName) -> Role:
    return spec.role(name) or Role(name=name, replicas=0)
